package launch

import (
	_ "example.com/bad/util"
	_ "testing"
)
