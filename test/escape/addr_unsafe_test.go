package escape_test

import (
	"strconv"
	"unsafe"
)

// addrOf is where p is, for those who should not be able to write there. What
// is on the heap stays where it is.
func addrOf(p *[8]byte) string {
	return strconv.FormatUint(uint64(uintptr(unsafe.Pointer(p))), 10)
}
