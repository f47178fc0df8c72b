package mountns

import (
	_ "C"
	_ "unsafe"
)
