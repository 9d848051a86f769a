package main

import "fmt"

// Charge is what the payment provider answers.
type Charge struct {
	ID     string
	Amount int
}

// provider stands for a payment provider that deduplicates by the key it is sent
// and can be asked by it. This one is used by one goroutine.
type provider struct{ charges map[string]Charge }

func (p *provider) charge(key string, amount int) Charge {
	if c, ok := p.charges[key]; ok {
		return c
	}
	c := Charge{ID: fmt.Sprintf("ch_%d", len(p.charges)+1), Amount: amount}
	p.charges[key] = c
	return c
}

func (p *provider) find(key string) (Charge, bool) {
	c, ok := p.charges[key]
	return c, ok
}
