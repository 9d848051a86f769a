package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idem-go/idem"
	"github.com/idem-go/idem/driver"
	"github.com/idem-go/idem/memstore"
	"github.com/idem-go/idem/redisstore"
	"github.com/idem-go/idem/tieredstore"
)

func Example() {
	// ContextTimeoutEnabled: a call must not outlive its context. New refuses a
	// client without it.
	rdb := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	backend, err := redisstore.New(rdb, &redisstore.Options{MinReplicas: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := idem.New(backend, &idem.Options{Namespace: "billing"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := store.Check(ctx); !driver.OnlyWarnings(err) {
		fmt.Println(err)
		return
	}
	res, err := store.Execute(ctx, "charge:inv_8842", func(context.Context) (idem.Result, error) {
		return idem.Result{Value: []byte("ch_1")}, nil
	})
	fmt.Println(string(res.Value), res.Replayed, err)
}

// Seven days in Redis before what an archive keeps; here the archive is memory.
func ExampleNewCache() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "idem", SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379"}, ContextTimeoutEnabled: true,
	})
	defer func() { _ = rdb.Close() }()
	fast, err := redisstore.NewCache(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tiers, err := tieredstore.New(fast, memstore.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := idem.New(tiers, nil)
	fmt.Println(store != nil, err)
}

func ExampleBackend_RedisKey() {
	rdb := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	backend, err := redisstore.New(rdb, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The key as the Store hands it over: with the namespace.
	fmt.Println(backend.RedisKey(driver.JoinKey("billing", "charge:inv_8842")))
	// Output: idem:{}7:billingcharge:inv_8842
}
