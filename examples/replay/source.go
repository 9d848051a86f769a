package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// The shipped deliveries are what the generator makes of this:
//
//go:generate go run . -generate 22000 -duplicates 0.35 -seed 8842 -write deliveries.ndjson.gz
const (
	shippedDeliveries = 22000
	shippedDuplicates = 0.35
	shippedSeed       = 8842
)

// They are embedded, so that the program runs from a module proxy alone.
//
//go:embed deliveries.ndjson.gz
var shipped []byte

// source is a stream of deliveries, read by one goroutine.
type source interface {
	// next returns the next delivery, io.EOF at the end.
	next() (delivery, error)
}

// openSource opens the stream that the configuration names, from its beginning.
// total is the number of deliveries, 0 if that is not known.
func openSource(cfg *config, stdin io.Reader) (src source, total int, done func() error, err error) {
	done = func() error { return nil }
	switch {
	case cfg.generate > 0:
		return newGenerator(cfg.generate, cfg.duplicates, cfg.seed), cfg.generate, done, nil
	case cfg.in == "":
		r, err := unzipped(bytes.NewReader(shipped))
		return newLineSource(r), shippedDeliveries, done, err
	case cfg.in == "-":
		r, err := unzipped(stdin)
		return newLineSource(r), 0, done, err
	}
	f, err := os.Open(cfg.in)
	if err != nil {
		return nil, 0, done, err
	}
	r, err := unzipped(f)
	if err != nil {
		return nil, 0, done, errors.Join(fmt.Errorf("%s: %w", cfg.in, err), f.Close())
	}
	return newLineSource(r), 0, f.Close, nil
}

// unzipped reads r, through gzip if it begins like that.
func unzipped(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, err := b.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return b, nil //nolint:nilerr // shorter than two bytes: not gzip; the reader meets the error again
	}
	return gzip.NewReader(b)
}

// take reads up to n deliveries into memory.
func take(src source, n int) ([]delivery, error) {
	var taken []delivery
	for len(taken) < n {
		d, err := src.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, d)
	}
	return taken, nil
}

// sliceSource is a stream from memory.
type sliceSource struct{ left []delivery }

func (s *sliceSource) next() (delivery, error) {
	if len(s.left) == 0 {
		return delivery{}, io.EOF
	}
	d := s.left[0]
	s.left = s.left[1:]
	return d, nil
}

// chain reads one source after the other.
type chain []source

func (c *chain) next() (delivery, error) {
	for len(*c) > 0 {
		d, err := (*c)[0].next()
		if !errors.Is(err, io.EOF) {
			return d, err
		}
		*c = (*c)[1:]
	}
	return delivery{}, io.EOF
}

// writeDeliveries writes the whole stream to a file, compressed if its name ends
// in .gz, and returns the number of deliveries.
func writeDeliveries(path string, src source) (n int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !strings.HasSuffix(path, ".gz") {
		return writeLines(f, src)
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	return writeLines(z, src)
}

func writeLines(w io.Writer, src source) (int, error) {
	out := bufio.NewWriter(w)
	for n := 0; ; n++ {
		d, err := src.next()
		if errors.Is(err, io.EOF) {
			return n, out.Flush()
		}
		if err != nil {
			return n, err
		}
		line, err := d.line()
		if err != nil {
			return n, err
		}
		if _, err := out.Write(append(line, '\n')); err != nil {
			return n, err
		}
	}
}
