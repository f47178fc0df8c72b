package launcher

import _ "encoding/gob"
