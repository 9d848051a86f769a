package idem

import (
	"encoding/json"
	"fmt"
)

// Codec encodes the values of [Do] for the record. Its ID is stored beside each
// value, for ever; a value with another ID than the Store's codec is a
// [DecodeError]. Codecs are safe for concurrent use. Decode must not change or
// keep b.
type Codec interface {
	ID() string
	Encode(v any) ([]byte, error)
	Decode(b []byte, v any) error
}

// jsonCodec is the default codec, encoding/json.
type jsonCodec struct{}

func (jsonCodec) ID() string                   { return "json" }
func (jsonCodec) Encode(v any) ([]byte, error) { return json.Marshal(v) }
func (jsonCodec) Decode(b []byte, v any) error { return json.Unmarshal(b, v) }

// encode calls the Store's codec. A codec that panics has not encoded: the
// operation has run, so its end must still be recorded.
func (s *Store) encode(v any) (b []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("codec %q panicked: %v", s.opts.Codec.ID(), p)
		}
	}()
	return s.opts.Codec.Encode(v)
}

// decode is the other direction. What was recorded as raw bytes (codec id "")
// is offered to the codec.
func (s *Store) decode(q *call, raw []byte, v any) error {
	codecID := q.codec
	own := s.opts.Codec.ID()
	var cause error
	detail := ""
	if codecID != "" && codecID != own {
		detail = fmt.Sprintf("it was encoded by codec %q, this Store has %q", codecID, own)
	} else if cause = s.tryDecode(raw, v); cause == nil {
		return nil
	}
	return &DecodeError{Raw: raw, CodecID: codecID, detail: q.error(ErrNotDecoded, detail, cause)}
}

// tryDecode calls the Store's codec; one that panics has not decoded.
func (s *Store) tryDecode(raw []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("codec %q panicked: %v", s.opts.Codec.ID(), p)
		}
	}()
	return s.opts.Codec.Decode(raw, v)
}
