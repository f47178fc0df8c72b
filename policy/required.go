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
// Unless BestEffort is set these are write (but not in Unconfined) and those
// that a field asks for ([Policy.Asks]); and always those in Require. Limits
// have a BestEffort of their own.
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
	if promise == PromiseLimits { // the mode governs files
		return p.Limits.Any() && !p.Limits.BestEffort && !p.BestEffort
	}
	if p.BestEffort || p.Mode == Unconfined {
		return false
	}
	return promise == PromiseWrite || p.Asks(promise)
}

// Asks reports whether a field of the policy asks for a promise that isn't
// made otherwise. Such a promise is required, unless BestEffort is set.
func (p Policy) Asks(promise Promise) bool {
	switch promise {
	case PromiseRead:
		return p.Read != nil
	case PromiseProtect:
		return len(p.Protect) > 0
	case PromiseHide:
		return len(p.Hide) > 0
	case PromisePrivateTmp:
		return p.PrivateTmp
	case PromiseMetadata:
		return p.StrictMetadata
	case PromiseNetwork:
		return p.Network.Limited()
	case PromiseLimits:
		return p.Limits.Any()
	}
	return false
}

// Limited reports whether anything is shut.
func (n Network) Limited() bool {
	return n.Mode == NetworkNone || n.ConnectTCP != nil || n.BindTCP != nil ||
		n.ConnectUDP != nil || n.BindUDP != nil
}
