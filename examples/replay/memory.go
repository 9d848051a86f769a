package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// peakMemory returns the most memory that this process has occupied, in bytes:
// the peak of its resident set where the system tells it (Linux), else what the
// Go runtime has taken from the system.
func peakMemory() int64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				if err == nil {
					return kb << 10
				}
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}
