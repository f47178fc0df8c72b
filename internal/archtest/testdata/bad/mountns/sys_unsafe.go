package mountns

import _ "unsafe"
