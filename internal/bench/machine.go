package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine returns what a reader must know to judge the figures.
func machine() []string {
	facts := []string{fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	if cpu := procLine("/proc/cpuinfo", "model name"); cpu != "" {
		facts = append(facts, cpu)
	}
	if memory := procLine("/proc/meminfo", "MemTotal"); memory != "" {
		kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(memory, " kB"), 64)
		if err == nil {
			facts = append(facts, fmt.Sprintf("%.0f GB", kilobytes/megabyte))
		}
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		facts = append(facts, "kernel "+strings.TrimSpace(string(kernel)))
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		last, _, _ := strings.Cut(string(load), " ")
		facts = append(facts, "load in the minute before "+last)
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
