package pgstore

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	defaultSchema = "public"
	defaultTable  = "idem_records"

	// Postgres cuts an identifier silently after 63 bytes; the names of the
	// indexes and of the view are made from the table's.
	maxSchemaLen = 63
	maxTableLen  = 63 - len("_expires")
)

// names are the quoted identifiers that the statements are built with.
type names struct {
	schema, bareTable string // as given, or the default
	table, stats      string // quoted, with the schema
	expires, open     string // quoted, without it: an index lives in its table's schema
}

func newNames(schema, table string) (names, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if table == "" {
		table = defaultTable
	}
	if err := checkName("Schema", schema, maxSchemaLen); err != nil {
		return names{}, err
	}
	if err := checkName("Table", table, maxTableLen); err != nil {
		return names{}, err
	}
	return names{
		schema: schema, bareTable: table,
		table: quote(schema) + "." + quote(table), stats: quote(schema) + "." + quote(table+"_stats"),
		expires: quote(table + "_expires"), open: quote(table + "_open"),
	}, nil
}

// checkName refuses what Postgres cannot hold as it is.
func checkName(field, name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("pgstore: Options.%s has %d bytes, more than %d", field, len(name), limit)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("pgstore: Options.%s %q is not valid UTF-8, or contains a zero byte", field, name)
	}
	return nil
}

// quote makes an identifier of any name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// rename puts these names in the place of the default ones in SQL text.
func (n *names) rename(sql string) string {
	return strings.NewReplacer(
		quote(defaultSchema)+"."+quote(defaultTable), n.table,
		quote(defaultSchema)+"."+quote(defaultTable+"_stats"), n.stats,
		quote(defaultTable+"_expires"), n.expires,
		quote(defaultTable+"_open"), n.open,
	).Replace(sql)
}
