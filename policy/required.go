package policy

import "slices"

// Promises returns every promise there is, in the order in which they are
// reported.
func Promises() []Promise {
	return []Promise{
		PromiseWrite, PromiseRead, PromiseProtect, PromiseHide,
		PromisePrivateTmp, PromiseMetadata, PromiseDeviceIoctl, PromiseSignals,
		PromiseAbstractSockets, PromisePathSockets, PromiseNetwork,
		PromiseLimits,
	}
}

// Required returns the promises without which nothing runs, in the order of
// [Promises].
//
// Unless BestEffort is set these are write (but not in Unconfined), read if
// there is a read list, and network if it is limited; and always those in
// Require.
func (p Policy) Required() []Promise {
	var out []Promise
	for _, promise := range Promises() {
		if p.Requires(promise) {
			out = append(out, promise)
		}
	}
	return out
}

// Requires reports whether promise is among [Policy.Required].
func (p Policy) Requires(promise Promise) bool {
	if slices.Contains(p.Require, promise) {
		return true
	}
	if p.BestEffort || p.Mode == Unconfined {
		return false
	}
	switch promise {
	case PromiseWrite:
		return true
	case PromiseRead:
		return p.Read != nil
	case PromiseNetwork:
		return p.Network.Limited()
	}
	return false
}

// Limited reports whether anything is shut.
func (n Network) Limited() bool {
	return n.Mode == NetworkNone || n.ConnectTCP != nil || n.BindTCP != nil ||
		n.ConnectUDP != nil || n.BindUDP != nil
}
