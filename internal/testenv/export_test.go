package testenv

import "context"

// Get looks for a program thing-server, beside thing-helper, in the folders that
// match a pattern, and installs a package thing as a user who has env.
func Get(ctx context.Context, dirs string, env []string, euid int) (string, error) {
	w := wanted{what: "Thing", files: []string{"thing-server"}, beside: []string{"thing-helper"}, before: []string{dirs}, pack: "thing", hint: "set THING, or "}
	return w.get(ctx, installer{env: env, euid: euid})
}
