package driver

import (
	"fmt"
	"strconv"
	"strings"
)

// JoinKey returns the key under which a backend keeps the record of key in
// namespace. The namespace is prefixed with its length in bytes, so that no two
// pairs share a record: JoinKey("pay", "inv_1") is "3:payinv_1".
func JoinKey(namespace, key string) string {
	if namespace == "" {
		return "0:" + key
	}
	return strconv.Itoa(len(namespace)) + ":" + namespace + key
}

// SplitKey is the inverse of [JoinKey].
func SplitKey(stored string) (namespace, key string, err error) {
	digits, rest, ok := strings.Cut(stored, ":")
	n, convErr := strconv.Atoi(digits)
	if !ok || convErr != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != digits {
		return "", "", fmt.Errorf("%w: %q does not begin with the length of a namespace", ErrInvalidKey, stored)
	}
	return rest[:n], rest[n:], nil
}
