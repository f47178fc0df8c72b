package policy

func (r *resolver) grantReads(env *environ) {
	if r.p.Read == nil {
		return
	}
}

func (r *resolver) grantUnix() {}
