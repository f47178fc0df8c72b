package launcher

import _ "text/template"
