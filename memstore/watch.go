package memstore

import (
	"context"
)

// Watch implements [driver.Watcher]. The channel receives after each Complete,
// Release and Reset of key; hints that nobody has received yet coalesce. It is
// never closed. The end of a lease gives no hint: there are no timers here.
func (b *Backend) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	if err := checkKey(key); err != nil {
		return nil, err
	}
	hints := make(chan struct{}, 1)
	sh := b.shard(key)
	sh.addWatcher(key, hints)
	context.AfterFunc(ctx, func() { sh.removeWatcher(key, hints) })
	return hints, nil
}

func (sh *shard) addWatcher(key string, hints chan struct{}) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.watchers[key] == nil {
		sh.watchers[key] = make(map[chan struct{}]struct{})
	}
	sh.watchers[key][hints] = struct{}{}
}

func (sh *shard) removeWatcher(key string, hints chan struct{}) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.watchers[key], hints)
	if len(sh.watchers[key]) == 0 {
		delete(sh.watchers, key)
	}
}

// hint tells the watchers of key. It waits for none of them. It needs mu.
func (sh *shard) hint(key string) {
	for hints := range sh.watchers[key] {
		select {
		case hints <- struct{}{}:
		default: // one is waiting to be received: that says it
		}
	}
}
