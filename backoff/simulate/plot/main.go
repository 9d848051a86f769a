// Command plot draws the result of backoff/simulate, which runs it. It reads JSON
// from its standard input and writes an SVG file.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// series is one line of both panels.
type series struct {
	Name    string    `json:"name"`
	Clients []float64 `json:"clients"`
	Millis  []float64 `json:"millis"`
	Calls   []float64 `json:"calls"`
}

func main() {
	if err := run(os.Stdin, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plot:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: plot FILE < JSON")
	}
	var all []series
	if err := json.NewDecoder(in).Decode(&all); err != nil {
		return err
	}
	for _, s := range all {
		if err := s.check(); err != nil {
			return err
		}
	}
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	return errors.Join(render(f, all), f.Close())
}

// check refuses what has no place on a logarithmic scale.
func (s series) check() error {
	if len(s.Clients) == 0 || len(s.Millis) != len(s.Clients) || len(s.Calls) != len(s.Clients) {
		return fmt.Errorf("%s: %d clients, %d times, %d calls", s.Name, len(s.Clients), len(s.Millis), len(s.Calls))
	}
	if least := min(slices.Min(s.Millis), slices.Min(s.Calls)); least <= 0 {
		return fmt.Errorf("%s: %v is not positive", s.Name, least)
	}
	return nil
}

// render draws calls and time side by side, both over the number of clients.
func render(out io.Writer, all []series) error {
	calls, err := panel("Calls until all have committed", true, all, func(s series) []float64 { return s.Calls })
	if err != nil {
		return err
	}
	times, err := panel("Time until all have committed, ms", false, all, func(s series) []float64 { return s.Millis })
	if err != nil {
		return err
	}
	const width, height = 24 * vg.Centimeter, 11 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 8}
	panels := [][]*plot.Plot{{calls, times}}
	for i, c := range plot.Align(panels, tiles, draw.New(canvas))[0] {
		panels[0][i].Draw(c)
	}
	_, err = canvas.WriteTo(out)
	return err
}

// panel is one plot, with a logarithmic scale: the strategies differ by factors.
// One legend serves both panels, where it crosses no line.
func panel(title string, withLegend bool, all []series, values func(series) []float64) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White // readable also where a page is dark
	p.Title.Text, p.Title.Padding = title, vg.Points(6)
	p.X.Label.Text = "clients"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(1)
	p.X.Tick.Marker = plot.ConstantTicks{{Value: 50, Label: "50"}, {Value: 100, Label: "100"}, {Value: 150, Label: "150"}, {Value: 200, Label: "200"}}
	p.Add(plotter.NewGrid())
	for i, s := range all {
		points := make(plotter.XYs, len(s.Clients))
		for j, y := range values(s) {
			points[j].X, points[j].Y = s.Clients[j], y
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		line.Width, line.Color = vg.Points(1.5), palette(i)
		line.Dashes = dashes(i)
		p.Add(line)
		if withLegend {
			p.Legend.Add(s.Name, line)
		}
	}
	return p, nil
}

// palette are colours that stay apart for the colour-blind (Okabe and Ito, 2008).
func palette(i int) color.Color {
	colors := []color.RGBA{
		{R: 0x00, G: 0x00, B: 0x00, A: 0xff},
		{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
		{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
		{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	}
	return colors[i%len(colors)]
}

// dashes tell the lines apart without colours.
func dashes(i int) []vg.Length {
	patterns := [][]vg.Length{{2, 2}, {8, 3}, {8, 3, 2, 3}, nil, {4, 2}}
	return patterns[i%len(patterns)]
}
