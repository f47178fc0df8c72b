package manager_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shofer-dev/shofer-sandbox/cgroup"
	"github.com/shofer-dev/shofer-sandbox/cgroup/manager"
	"github.com/shofer-dev/shofer-sandbox/policy"
)

// A program in a login session, which may make no groups by itself.
func ExampleEnterScope() {
	limits := policy.Limits{Memory: 1 << 30}
	place, err := cgroup.Find(limits, cgroup.Options{})
	var support *cgroup.SupportError
	if errors.As(err, &support) && support.Scope {
		if err = manager.EnterScope(context.Background()); err == nil {
			place, err = cgroup.Find(limits, cgroup.Options{Own: true})
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(place.Folders())
}
