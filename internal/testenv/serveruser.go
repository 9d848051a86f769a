package testenv

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// account is a system user and its group.
type account struct{ uid, gid uint32 }

// serverUser returns the system user that a server runs as which refuses root;
// nil keeps the process's own.
func serverUser() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // none is needed
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &account{uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("root cannot run the server, and there is no user postgres or nobody")
}

// tail returns the last n bytes of b as text.
func tail(b []byte, n int) string {
	return strings.TrimSpace(string(b[max(0, len(b)-n):]))
}
