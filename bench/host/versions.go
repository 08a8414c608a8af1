package host

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// Versions returns the versions of modules in this program.
func Versions(modules []string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return versionsIn(info, modules)
}

func versionsIn(info *debug.BuildInfo, modules []string) string {
	var all []string
	for _, want := range modules {
		for _, m := range info.Deps {
			if m.Path != want {
				continue
			}
			version := m.Version
			if m.Replace != nil {
				version = m.Replace.Version
			}
			if version == "" || version == "(devel)" { // a folder of this repository
				version = revision(info)
			}
			path := strings.Split(want, "/")
			if len(path) > 2 && strings.HasPrefix(path[len(path)-1], "v") {
				path = path[:len(path)-1] // …/v4
			}
			all = append(all, path[len(path)-1]+" "+version)
		}
	}
	return strings.Join(all, ", ")
}

// revision is the revision of the repository from which the program was built, with a mark if files had changed.
func revision(info *debug.BuildInfo) string {
	var id, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id = s.Value[:min(len(s.Value), 7)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return cmp.Or(id, "of an unknown revision") + changed
}
