// Package launcher links the network.
package launcher

import _ "net/http"
