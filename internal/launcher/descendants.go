package launcher

import (
	"os"
	"strconv"
	"strings"
)

// descendants lists the processes below pid, as /proc shows them at the
// moment: each thread's children, and theirs.
func descendants(pid int) (pids []int) {
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		task := "/proc/" + strconv.Itoa(queue[0]) + "/task"
		threads, err := os.ReadDir(task)
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			b, err := os.ReadFile(task + "/" + t.Name() + "/children")
			if err != nil {
				continue
			}
			for _, f := range strings.Fields(string(b)) {
				if child, ok := atoi(f); ok {
					pids, queue = append(pids, child), append(queue, child)
				}
			}
		}
	}
	return pids
}
