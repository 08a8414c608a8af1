package deploy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A bicep is a template, read as text: no compiler is available where the tests run.
type bicep struct {
	text     string // without comments
	params   map[string]bool
	required map[string]bool // parameters without a default
	outputs  map[string]bool
}

func readBicep(t *testing.T, file string) bicep {
	t.Helper()
	b := bicep{params: map[string]bool{}, required: map[string]bool{}, outputs: map[string]bool{}}
	var err error
	if b.text, err = uncomment(read(t, file)); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, m := range regexp.MustCompile(`(?m)^param (\w+) (?:string|int|bool|object|array)( = .+)?$`).FindAllStringSubmatch(b.text, -1) {
		b.params[m[1]], b.required[m[1]] = true, m[2] == ""
	}
	for _, m := range regexp.MustCompile(`(?m)^output (\w+) `).FindAllStringSubmatch(b.text, -1) {
		b.outputs[m[1]] = true
	}
	declared := regexp.MustCompile(`(?m)^(?:param|var|resource|module) (\w+) `).FindAllStringSubmatch(b.text, -1)
	if len(declared) < 5 || len(b.params) == 0 {
		t.Fatalf("%s: got declarations %q", file, declared)
	}
	seen := map[string]bool{}
	for _, m := range declared {
		uses := regexp.MustCompile(`\b`+m[1]+`\b`).FindAllString(b.text, -1)
		leaf := strings.HasPrefix(m[0], "resource")
		if seen[m[1]] || len(uses) < 2 && !leaf {
			t.Errorf("%s: %s is declared twice, or not used", file, m[1])
		}
		seen[m[1]] = true
	}
	for line := range strings.Lines(b.text) {
		if line[0] == '@' {
			continue // texts for people
		}
		for _, m := range regexp.MustCompile(`(?:^|[\s(\[{!,])(\w+)!?\.\w`).FindAllStringSubmatch(line, -1) {
			if !seen[m[1]] && !strings.Contains(b.text, "[for "+m[1]+" in ") && !strings.Contains(b.text, "[for ("+m[1]+", ") {
				t.Errorf("%s: %s is not declared: %s", file, m[1], line)
			}
		}
		if word, _, _ := strings.Cut(line, " "); line[0] >= 'a' && line[0] <= 'z' &&
			!slices.Contains([]string{"param", "var", "resource", "module", "output"}, word) {
			t.Errorf("%s: %q declares nothing", file, line)
		}
	}
	return b
}

// uncomment removes the comments, and fails where brackets or quotes don't match.
func uncomment(text string) (string, error) {
	var out strings.Builder
	var open []rune
	pairs := map[rune]rune{')': '(', ']': '[', '}': '{'}
	for number, line := range strings.Split(text, "\n") {
		quoted, inside := false, 0 // inside: depth of ${} in a string
		var before rune
		for i, r := range line {
			switch {
			case quoted && r == '\'' && before != '\\':
				quoted = false
			case quoted && r == '{' && before == '$':
				quoted, inside = false, len(open)+1
				open = append(open, '{')
			case quoted:
			case r == '\'':
				quoted = true
			case r == '/' && strings.HasPrefix(line[i:], "//"):
				line = strings.TrimRight(line[:i], " ")
			case strings.ContainsRune("([{", r):
				open = append(open, r)
			case strings.ContainsRune(")]}", r):
				if len(open) == 0 || open[len(open)-1] != pairs[r] {
					return "", fmt.Errorf("line %d: %c closes nothing", number+1, r)
				}
				quoted = inside > 0 && len(open) == inside
				if quoted {
					inside = 0
				}
				open = open[:len(open)-1]
			}
			if i >= len(line) {
				break
			}
			before = r
		}
		if quoted {
			return "", fmt.Errorf("line %d: a quote is open", number+1)
		}
		out.WriteString(line + "\n")
	}
	if len(open) > 0 {
		return "", fmt.Errorf("%q is open at the end", string(open))
	}
	return out.String(), nil
}

// block returns a declaration with its whole body.
func (b bicep) block(t *testing.T, start string) string {
	t.Helper()
	_, rest, ok := strings.Cut(b.text, "\n"+start)
	block, _, closed := strings.Cut(rest, "\n}")
	if !ok || !closed {
		t.Fatalf("no %s", start)
	}
	return block
}

// find returns the first group of a pattern, which must match.
func find(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Errorf("nothing matches %s", pattern)
		return ""
	}
	return m[1]
}

func number(t *testing.T, text, field string) int {
	t.Helper()
	n, err := strconv.Atoi(find(t, text, `\b`+field+`: (\d+)\b`))
	if err != nil {
		t.Errorf("%s: %v", field, err)
	}
	return n
}

func defaultPrefix(t *testing.T) string {
	t.Helper()
	return find(t, read(t, "storage.bicep"), `(?m)^param prefix string = '(\w+)'$`)
}

func TestContainerApps(t *testing.T) {
	t.Parallel()
	all, b, storage := running(t), readBicep(t, "containerapps.bicep"), readBicep(t, "storage.bicep")
	if !strings.Contains(b.text, "var names = loadJsonContent('names.json')\n") {
		t.Error("the queues are not those of names.json")
	}
	if got, want := find(t, b.text, `(?m)^param prefix string = '(\w+)'$`), defaultPrefix(t); got != want {
		t.Errorf("got prefix %q, want %q", got, want)
	}

	// The module gets every parameter that it needs, and has every output that is used.
	given := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    (\w+): \w+$`).FindAllStringSubmatch(b.block(t, "module store 'storage.bicep' = {"), -1) {
		given[m[1]] = true
	}
	for name := range given {
		if !storage.params[name] {
			t.Errorf("storage.bicep takes no %s", name)
		}
	}
	for name, required := range storage.required {
		if required && !given[name] {
			t.Errorf("storage.bicep needs %s", name)
		}
	}
	for _, m := range regexp.MustCompile(`\bstore\.outputs\.(\w+)`).FindAllStringSubmatch(b.text, -1) {
		if !storage.outputs[m[1]] {
			t.Errorf("storage.bicep gives no %s", m[1])
		}
	}
	for _, program := range []string{"web", "worker"} {
		identity := "'${account}-" + program + "'"
		if !strings.Contains(b.text, "var "+program+"Identity = resourceId('Microsoft.ManagedIdentity/userAssignedIdentities', "+identity+")") ||
			!strings.Contains(storage.block(t, "resource "+program+" "), "name: "+identity) {
			t.Errorf("the identity of %s is not the one of storage.bicep", program)
		}
	}

	shared := regexp.MustCompile(`\{ name: '(\w+)',`).FindAllStringSubmatch(between(b.text, "var settings = [", "\n]"), -1)
	for _, program := range []string{"web", "worker"} {
		app := b.block(t, "resource "+program+" 'Microsoft.App/containerApps@")
		one := container{
			name:    find(t, app, `\n {10}name: '(\w+)'\n`),
			command: find(t, app, `command: \['([^']*)'\]`),
			probes:  map[string]probe{},
			grace:   time.Duration(number(t, app, "terminationGracePeriodSeconds")) * time.Second,
		}
		for arg := range strings.SplitSeq(find(t, app, `args: \[([^\]]*)\]`), ", ") {
			one.args = append(one.args, strings.Trim(arg, "'"))
		}
		if !strings.Contains(app, "env: concat(settings, [") {
			t.Errorf("%s doesn't get what both share", program)
		}
		for _, m := range slices.Concat(shared, regexp.MustCompile(`\{ name: '(\w+)',`).FindAllStringSubmatch(between(app, "env: concat(", "])"), -1)) {
			one.env = append(one.env, m[1])
		}
		if !slices.Contains(one.env, "AZURE_CLIENT_ID") || !strings.Contains(app, "value: store.outputs."+program+"ClientId") {
			t.Errorf("%s doesn't know which identity is its own", program)
		}
		for _, m := range regexp.MustCompile(`type: '(\w+)', httpGet: \{ path: '([^']*)', port: (\d+) \}`).FindAllStringSubmatch(app, -1) {
			one.probes[strings.ToLower(m[1])] = probe{m[2], m[3]}
		}
		if one.name != program {
			t.Errorf("app %s runs %s", program, one.name)
		}
		one.check(t, all)
	}
	if got := find(t, b.text, `name: 'MILLRACE_STORE', value: '([^']*)'`); got != "azure://${account}?prefix=${prefix}" {
		t.Errorf("got store %q", got)
	}

	web := b.block(t, "resource web 'Microsoft.App/containerApps@")
	if got := number(t, web, "targetPort"); got != 8080 || !strings.Contains(web, "external: true") {
		t.Errorf("got ingress to port %d, want an external one to 8080", got)
	}
	if n, err := strconv.Atoi(find(t, web, `http: \{ metadata: \{ concurrentRequests: '(\d+)' \} \}`)); err != nil || n <= 0 {
		t.Error("the web doesn't scale by requests")
	}
	worker := b.block(t, "resource worker 'Microsoft.App/containerApps@")
	if strings.Contains(worker, "ingress:") {
		t.Error("a worker needs no way in")
	}
	if got := number(t, worker, "minReplicas"); got != 0 {
		t.Errorf("got at least %d workers, want none", got)
	}
	checkTimes(t, number(t, worker, "pollingInterval"), number(t, worker, "cooldownPeriod"))
	if !strings.Contains(worker, "rules: empty(scale) ? byMessages : byUse\n") || !strings.Contains(b.text, "param scale string = ''\n") {
		t.Error("the worker doesn't scale by messages unless it is told to")
	}
	rule, meta := b.rule(t, "byMessages")
	if got := checkQueueTrigger(t, meta, "account", "${prefix}"); got != "${q.name}" {
		t.Errorf("got queue %q", got)
	}
	if find(t, rule, `type: '([^']*)'`) != "azure-queue" || find(t, rule, `identity: (\w+)`) != "workerIdentity" {
		t.Error("the worker's rule is no azure-queue, or has no identity")
	}
	// https://keda.sh/docs/latest/scalers/metrics-api: a number at a path of GJSON in an answer of JSON.
	rule, meta = b.rule(t, "byUse")
	want := map[string]string{"url": "${scale}/scale?queue=${q.name}", "valueLocation": "value", "targetValue": "1", "activationTargetValue": "0"}
	if find(t, rule, `type: '([^']*)'`) != "metrics-api" || !maps.Equal(meta, want) {
		t.Errorf("got %v, want a metrics-api with %v", meta, want)
	}
	for _, q := range readNames(t).Queues {
		if !slices.Contains(all.queues, q.Name) {
			t.Errorf("no worker consumes queue %s, so /scale knows nothing of it", q.Name)
		}
	}
}

// rule returns the scale rules of a variable, one for each queue, and their metadata.
func (b bicep) rule(t *testing.T, name string) (text string, metadata map[string]string) {
	t.Helper()
	text, metadata = between(b.text, "var "+name+" = [for q in names.queues: {", "}]"), map[string]string{}
	if find(t, text, `(?m)^  name: (\S+)$`) != "q.name" {
		t.Errorf("%s: the rules are not named by their queues", name)
	}
	for _, m := range regexp.MustCompile(`(?m)^ {6}(\w+): (.+)$`).FindAllStringSubmatch(text, -1) {
		metadata[m[1]] = strings.Trim(m[2], "'")
	}
	return text, metadata
}

func between(text, start, end string) string {
	_, rest, _ := strings.Cut(text, start)
	inside, _, _ := strings.Cut(rest, end)
	return inside
}

// builtin are the roles by the templates' names for them.
// https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
var builtin = map[string]string{
	"queueSender":      "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a",
	"queueReader":      "19e7f393-937e-4f77-808e-94535e297925",
	"queueContributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
	"blobReader":       "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
	"blobDelegator":    "db58b8e5-c6ad-4a2a-8342-4190687cbf4a",
	"blobContributor":  "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
	"tableReader":      "76199698-9eea-4c19-bc75-cec21354c6b6",
	"tableContributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}

func TestStorageTemplate(t *testing.T) {
	t.Parallel()
	b, n := readBicep(t, "storage.bicep"), readNames(t)
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  (\w+): subscriptionResourceId\('Microsoft.Authorization/roleDefinitions', '([-0-9a-f]+)'\)$`).FindAllStringSubmatch(b.text, -1) {
		got[m[1]] = m[2]
	}
	if !maps.Equal(got, builtin) {
		t.Errorf("got roles %v, want %v", got, builtin)
	}
	for resource, want := range map[string]string{
		"queues":       "[for q in names.queues: {",
		"containers":   "[for c in names.containers: {",
		"tables":       "[for t in names.tables: {",
		"webSends":     "[for (q, i) in names.queues: if (!empty(q.web)) {",
		"webBlobs":     "[for (c, i) in names.containers: if (!empty(c.web)) {",
		"webRows":      "[for (t, i) in names.tables: if (!empty(t.web)) {",
		"workerRoles":  "[for role in [roles.queueContributor, roles.blobContributor, roles.tableContributor]: {",
		"scalerCounts": "if (!empty(oidcIssuer)) {",
	} {
		if line := find(t, b.text, `(?m)^resource `+resource+` '[^']+' = (.+)$`); line != want {
			t.Errorf("%s: got %s, want %s", resource, line, want)
		}
	}
	// The web has no other roles: neither on the account nor on a name that isn't its own.
	for _, m := range regexp.MustCompile(`(?s)roleAssignments@[^']+' = .*?\n\}`).FindAllString(b.text, -1) {
		if strings.Contains(m, "principalId: web.") && strings.Contains(m, "roleDefinitionId: roles.blobDelegator\n") {
			continue // it is of the account alone, and allows nothing by itself
		}
		if strings.Contains(m, "principalId: web.") && !regexp.MustCompile(`scope: (queues|containers|tables)\[i\]`).MatchString(m) {
			t.Errorf("the web's role is too wide: %s", m)
		}
	}
	for _, want := range []string{"allowSharedKeyAccess: false", "allowBlobPublicAccess: false", "supportsHttpsTrafficOnly: true", "minimumTlsVersion: 'TLS1_2'"} {
		if !strings.Contains(b.text, want) {
			t.Errorf("the account lacks %s", want)
		}
	}
	for _, subject := range []string{"'system:serviceaccount:${namespace}:web'", "'system:serviceaccount:${namespace}:worker'"} {
		if !strings.Contains(b.text, subject) || find(t, b.text, `param namespace string = '(\w+)'`) != "millrace" {
			t.Errorf("no federation with %s", subject)
		}
	}
	// Longer names of tables would end in a hash, which the template can't compute.
	for _, one := range n.Tables {
		if made := strings.NewReplacer("-", "zx", "z", "zz").Replace(strings.Repeat("z", 12) + "-" + one.Name); len(made) > 63 {
			t.Errorf("table %s: %d characters with the longest prefix", one.Name, len(made))
		}
	}
}

// The functions that read templates must refuse broken ones.
func TestUncomment(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: 'b' // c\n":               "a: 'b'\n\n",
		"a: 'http://b' // '\n":        "a: 'http://b'\n\n",
		"a: '${b}-${c[0]}' // {\n":    "a: '${b}-${c[0]}'\n\n",
		"a: f('it''s ${g('}')} x')\n": "a: f('it''s ${g('}')} x')\n\n",
		"a: [\n  'b'\n]":              "a: [\n  'b'\n]\n",
	} {
		if got, err := uncomment(text); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"a: {", "a: ]", "a: (]", "a: 'b", "a: '${b'"} {
		if got, err := uncomment(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}
