package bench

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machine returns what a reader must know to judge the figures.
func machine() []string {
	facts := []string{fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	if cpu := procLine("/proc/cpuinfo", "model name"); cpu != "" {
		facts = append(facts, cpu)
	}
	if memory := procLine("/proc/meminfo", "MemTotal"); memory != "" {
		facts = append(facts, "memory "+memory)
	}
	return facts
}

// procLine returns the value of the first line with that name.
func procLine(path, name string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
