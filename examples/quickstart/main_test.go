package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSecondDeliveryIsAReplay(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, `charging 4200 with key 357bc9ea-f60e-8d4f-ae26-5718e51fc07b
ch_1 over 4200, replayed: false
ch_1 over 4200, replayed: true
`, out.String())
}
