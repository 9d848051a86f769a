package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	barWidth  = 30
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
)

// progress shows on standard error how far the run is: a bar that is drawn over
// itself on a terminal, else a line now and then.
type progress struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex // guards w and drawn
	drawn int        // length of the bar that stands on the line
}

func newProgress(w io.Writer) *progress { return &progress{w: w, terminal: isTerminal(w)} }

// isTerminal reports whether w is a terminal that can be drawn on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// say writes a line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	_, _ = fmt.Fprintf(p.w, format+"\n", args...) // progress is no reason to fail
}

// wipe removes the bar. The caller holds the mutex.
func (p *progress) wipe() {
	if p.drawn > 0 {
		_, _ = fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

// draw replaces the bar.
func (p *progress) draw(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	width := len([]rune(line))
	_, _ = fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.drawn-width)))
	p.drawn = width
}

// follow shows how now approaches total (0: not known) until stop is called.
// stop returns when nothing is shown any more.
func (p *progress) follow(what string, total int64, now func() int64) (stop func()) {
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	begun := time.Now()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ended:
				return
			}
			n := now()
			speed := perSecond(n, time.Since(begun))
			if p.terminal {
				p.draw(bar(what, n, total, speed))
			} else {
				p.say("%s", plain(what, n, total, speed))
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
		p.say("%s", plain(what, now(), 0, perSecond(now(), time.Since(begun))))
	})
}

func plain(what string, n, total int64, speed float64) string {
	if total > 0 {
		return fmt.Sprintf("%s: %s of %s deliveries, %s/s", what, grouped(n), grouped(total), grouped(int64(speed)))
	}
	return fmt.Sprintf("%s: %s deliveries, %s/s", what, grouped(n), grouped(int64(speed)))
}

func bar(what string, n, total int64, speed float64) string {
	if total <= 0 {
		return plain(what, n, total, speed)
	}
	full := int(min(n, total) * barWidth / total)
	return fmt.Sprintf("%s [%s%s] %3d %%  %s/s", what,
		strings.Repeat("#", full), strings.Repeat(".", barWidth-full), min(n, total)*100/total, grouped(int64(speed)))
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// grouped writes a number with commas.
func grouped(n int64) string {
	s := fmt.Sprint(max(n, -n))
	var b strings.Builder
	if n < 0 {
		b.WriteByte('-')
	}
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}
