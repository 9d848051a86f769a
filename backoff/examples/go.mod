module github.com/idem-go/idem/backoff/examples

go 1.25.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/idem-go/idem v0.0.0
	github.com/sony/gobreaker/v2 v2.4.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/idem-go/idem => ../..
