// Package launch imports what is for tests.
package launch

import _ "testing"
