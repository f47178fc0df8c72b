import os
import unittest


class Write(unittest.TestCase):
    def test_write(self):
        open(os.environ["O"] + "/new", "w")
