package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/ops/catalog"
)

// collectionFindings are about programs that keep different things under one name: a plan, a view and a collection of
// one name have the same documents.
func collectionFindings(desk *act.Desk) (all []Finding) {
	programs := desk.Known.Running() // by name, the oldest first
	if desk.Known.Own != nil {
		own := *desk.Known.Own
		own.Program = catalog.Program{Name: "this binary"}
		programs = append(programs, &own)
	}
	kept := map[string]map[string][]string{}  // the programs, by collection and noun
	types := map[string]map[string][]string{} // likewise by type, of each program's newest version
	add := func(to map[string]map[string][]string, name, kind, program string) {
		if to[name] == nil {
			to[name] = map[string][]string{}
		}
		to[name][kind] = append(to[name][kind], program)
	}
	for i, d := range programs {
		newest := d.Name != "this binary" && (i+1 == len(programs) || programs[i+1].Name != d.Name)
		for _, x := range d.Collections {
			if !x.Known() {
				continue
			}
			add(kept, x.Name, x.Noun(), strings.TrimSpace(d.Name+" "+d.Version))
			if newest && x.Type != "" {
				add(types, x.Name, x.Type, d.Name+" "+d.Version)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		var parts []string
		for _, noun := range slices.Sorted(maps.Keys(kept[name])) {
			parts = append(parts, fmt.Sprintf("a %s of %s", noun, strings.Join(kept[name][noun], ", ")))
		}
		switch {
		case len(parts) > 1:
			all = append(all, Finding{Severity: Wrong, Check: "collections", About: name, Text: fmt.Sprintf("%s is %s: both write into the same documents", name, strings.Join(parts, " and ")),
				Fix: "Stop the newer one, and give what it keeps another name. Look for documents that both have written. The finding goes within two days."})
		case len(types[name]) > 1:
			var programs []string
			for _, group := range types[name] {
				programs = append(programs, group...)
			}
			slices.Sort(programs)
			noun := slices.Collect(maps.Keys(kept[name]))[0]
			all = append(all, Finding{Severity: Note, Check: "collections", About: name, Text: fmt.Sprintf("the types of the values in %s %s differ: %s", noun, name, strings.Join(programs, ", ")),
				Fix: "If these are one thing, let the programs share its type. A member that a program doesn't know stays as it is. If these are two, give one another name."})
		}
	}
	return all
}
