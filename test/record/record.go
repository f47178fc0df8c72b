// Package record holds the launcher to its own word on whatever machine it
// runs: what the status record calls enforced is tried from inside, and what
// can't be held is refused with the promise and the mend named. It has tests
// only, which need git, no other tools and no privilege; so they run in small
// guests with other kernels too.
//
// Each attempt is also made without a launcher, where it must succeed: a refusal
// that has another cause proves nothing.
//
// # Environment
//
// SHOFER_TEST_CONFINES says what the machine is known to hold: with "yes" the
// launcher must confine there by default, with "no" it must refuse to. Without
// it, it must confine from Landlock ABI 3 on, and may do either below.
package record
