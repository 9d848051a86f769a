package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// delivery is one message as it arrives: one line of the file.
type delivery struct {
	// ID names this delivery. A redelivery has another one, with the same Key.
	ID string `json:"id"`
	// Key names the operation, for ever.
	Key string `json:"key"`
	// Type is what to do: "charge", "refund", "payout", or any other word.
	Type string `json:"type"`
	// Amount is in minor units (cents); it must be positive.
	Amount int64 `json:"amount"`
	// Currency of the amount.
	Currency string `json:"currency,omitempty"`
	// Source of the money. The provider declines "card_declined".
	Source string `json:"source,omitempty"`
	// Seq is the order in which the operations were published; what arrives
	// with a lower one than its predecessor arrives out of order.
	Seq int `json:"seq,omitempty"`

	// unreadable: the line is no delivery at all. Only raw is set then.
	unreadable bool
	raw        []byte
}

// body is what the key stands for: everything but the accidents of delivery.
// Its digest is the fingerprint.
func (d *delivery) body() []byte {
	b, err := json.Marshal([]any{d.Type, d.Amount, d.Currency, d.Source})
	if err != nil {
		panic("bug: strings and a number are always encodable: " + err.Error())
	}
	return b
}

var (
	errNoType   = errors.New("malformed: no type")
	errNoAmount = errors.New("malformed: the amount is not positive")
)

// validate finds what makes a message poison: no attempt will ever succeed.
func (d *delivery) validate() error {
	switch {
	case d.Type == "":
		return errNoType
	case d.Amount <= 0:
		return errNoAmount
	}
	return nil
}

// usable reports whether a key can name an operation: idem refuses others too.
// The judge asks here, so that it does not have to take idem's word.
func usable(key string) bool {
	return key != "" && len(key) <= 512 && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

// line returns the delivery as it stands in a file, without the line's end.
func (d *delivery) line() ([]byte, error) {
	if d.unreadable {
		return d.raw, nil
	}
	return json.Marshal(d)
}

// parse reads one line. A line that is no delivery is returned as unreadable:
// such messages exist, and must not stop the consumer.
func parse(line []byte) delivery {
	var d delivery
	if err := json.Unmarshal(line, &d); err != nil {
		return delivery{unreadable: true, raw: append([]byte(nil), line...)}
	}
	return d
}

// maxLine bounds a line; a longer one is unreadable.
const maxLine = 64 << 10

// lineSource reads deliveries from newline-delimited JSON, one at a time.
type lineSource struct {
	r *bufio.Reader
}

func newLineSource(r io.Reader) *lineSource {
	return &lineSource{r: bufio.NewReaderSize(r, maxLine)}
}

// next returns the next delivery, io.EOF at the end. Empty lines are passed
// over.
func (s *lineSource) next() (delivery, error) {
	for {
		line, tooLong, err := s.r.ReadLine()
		if err != nil {
			return delivery{}, err
		}
		if !tooLong {
			if len(line) == 0 {
				continue
			}
			return parse(line), nil
		}
		kept := append([]byte(nil), line[:80]...)
		for tooLong && err == nil {
			_, tooLong, err = s.r.ReadLine()
		}
		return delivery{unreadable: true, raw: kept}, nil
	}
}
