package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-go/millrace/host/internal/boot"
	"github.com/millrace-go/millrace/ops/act"
	"github.com/millrace-go/millrace/storage"
)

// Knows reports that the operator's command line has a verb.
func Knows(verb string) bool {
	root := new(session).root(nil)
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == verb }) ||
		verb == cobra.ShellCompRequestCmd || verb == cobra.ShellCompNoDescRequestCmd
}

// Verbs are the verbs for a program's help, each with what it is about.
func Verbs() (all [][2]string) {
	for _, c := range new(session).root(nil).Commands() {
		all = append(all, [2]string{c.Name(), c.Short})
	}
	return all
}

// execute runs the command line. An error that comes from no act is one of the command line's own.
func (s *session) execute(ctx context.Context) error {
	ran := false
	root := s.root(&ran)
	root.SetArgs(withTwoDashes(root, s.process.Args))
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.process.Stderr)
	if len(s.process.Args) == 0 {
		root.SetOut(s.process.Stderr)
		_ = root.Help() // the exit code tells as well
		return act.Usage("")
	}
	cmd, err := root.ExecuteContextC(ctx)
	var bad *act.UsageError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bad) && cmd != root:
		if strings.HasPrefix(err.Error(), verbOf(cmd)+": ") { // a package has named it
			return act.Usage("%w%s", err, s.seeHelp(cmd, ran))
		}
		return act.Usage("%s: %w%s", verbOf(cmd), err, s.seeHelp(cmd, ran))
	case ran:
		return err
	}
	return act.Usage("%w. See %s --help", err, s.Command)
}

// verbOf is a command as people type it, without the program.
func verbOf(cmd *cobra.Command) string {
	_, verb, _ := strings.Cut(cmd.CommandPath(), " ")
	return verb
}

// seeHelp points to the help of a command whose line could not be parsed.
func (s *session) seeHelp(cmd *cobra.Command, ran bool) string {
	if ran {
		return ""
	}
	return fmt.Sprintf(". See %s --help", cmd.CommandPath())
}

const exitCodes = "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 nothing matched, 4 something is wrong (doctor)."

// root makes the commands from the table of acts. An act sets ran before it runs.
func (s *session) root(ran *bool) *cobra.Command {
	root := &cobra.Command{
		Use: s.Command, SilenceUsage: true, SilenceErrors: true, Args: cobra.ArbitraryArgs,
		RunE: s.unknownVerb,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.PersistentFlags().Var(&flagValue{set: func(text string) error {
		if s.url = text; text == "" {
			return errors.New("the value is empty")
		}
		return nil
	}}, "store", "the `URL` of the store, the same as for the other programs; the default is the environment variable "+boot.Variable("store"))
	root.PersistentFlags().BoolVar(&s.json, "json", false, "print JSON lines")
	ofVerb := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			s.help(root)
		} else {
			ofVerb(cmd, args)
		}
	})
	root.SetHelpCommand(s.helpCommand())
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 120"))
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(s.completion())
	s.addNouns(root, ran)
	for _, v := range s.Others {
		if v[0] != "" {
			root.AddCommand(&cobra.Command{Use: v[0], Short: v[1], DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error { return nil }})
		}
	}
	return root
}

// addNouns makes a command for each noun, with its verbs below it.
func (s *session) addNouns(root *cobra.Command, ran *bool) {
	nouns := map[string]*cobra.Command{}
	for _, a := range s.table() {
		noun := nouns[a.Noun]
		if noun == nil {
			noun = &cobra.Command{Use: a.Noun, Args: cobra.ArbitraryArgs, RunE: s.unknownVerb}
			nouns[a.Noun] = noun
			root.AddCommand(noun)
		}
		if a.Verb == "" || a.Alone {
			s.fill(noun, a, ran)
		}
		if a.Verb != "" {
			cmd := &cobra.Command{Use: a.Verb}
			s.fill(cmd, a, ran)
			noun.AddCommand(cmd)
		}
	}
	for _, noun := range nouns {
		if noun.HasSubCommands() {
			var verbs []string
			for _, c := range noun.Commands() {
				verbs = append(verbs, c.Name())
			}
			alone := slices.IndexFunc(s.table(), func(a *act.Act) bool { return a.Noun == noun.Name() && a.Verb == "" })
			about := noun.Short
			if noun.Short = strings.Join(verbs, ", "); alone >= 0 { // the noun without a verb is an act of its own
				noun.Short = about + "; also " + noun.Short
			}
			if noun.Long == "" {
				noun.Long = fmt.Sprintf("The verbs of %s.", noun.Name())
			}
		}
	}
}

// help explains the whole command line: all acts, each in a line.
func (s *session) help(root *cobra.Command) {
	w := tabwriter.NewWriter(root.OutOrStdout(), 0, 0, 2, ' ', 0)
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // the exit code tells as well
	say("The operator's command line. It can be used while workers run.\n\nUsage: %s VERB [arguments] [flags]\n\n", s.Command)
	for _, a := range s.table() {
		say("  %s\t%s\n", strings.TrimSpace(a.Name()+" "+a.Request().Places()), a.About)
	}
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && !slices.ContainsFunc(s.table(), func(a *act.Act) bool { return a.Noun == cmd.Name() }) {
			say("  %s\t%s\n", cmd.Use, cmd.Short)
		}
	}
	_ = w.Flush()
	say("\n%s VERB --help explains the flags of a verb. %s\n", s.Command, exitCodes)
	_ = w.Flush()
}

// helpCommand shows the help of a command. Cobra's own repeats what it doesn't know, which may be a secret.
func (s *session) helpCommand() *cobra.Command {
	return &cobra.Command{Use: "help VERB", Short: "explain a verb", Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		found, rest, err := cmd.Root().Find(args)
		if err != nil || len(rest) > 0 {
			return s.unknownVerb(found, append(rest, args...)[:1])
		}
		return found.Help()
	}}
}

// completion is the command that prints a shell's script.
func (s *session) completion() *cobra.Command {
	scripts := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
		"zsh":        (*cobra.Command).GenZshCompletion,
	}
	shells := slices.Sorted(maps.Keys(scripts))
	return &cobra.Command{
		Use: "completion SHELL", Short: "print a shell's completion script", ValidArgs: shells, Args: cobra.ArbitraryArgs,
		Long: strings.ReplaceAll("Print a shell's completion script.\n\nSHELL is one of "+strings.Join(shells, ", ")+
			". Run its line in the shell, and add it to the shell's start-up file:\n\n  bash:  source <(COMMAND completion bash)\n"+
			"  zsh:   source <(COMMAND completion zsh)    # after compinit\n  fish:  COMMAND completion fish | source\n\nbash needs its package bash-completion.", "COMMAND", s.Command),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return act.Usage("want SHELL, one of %s", strings.Join(shells, ", "))
			}
			write := scripts[args[0]]
			if write == nil || len(args) > 1 {
				return act.Usage("unknown shell %s; want one of %s", boot.Word(args[len(args)-1]), strings.Join(shells, ", "))
			}
			return write(cmd.Root(), s.out)
		},
	}
}

// fill makes a command do an act.
func (s *session) fill(cmd *cobra.Command, a *act.Act, ran *bool) {
	r := a.Request()
	cmd.Use = strings.TrimSpace(cmd.Name() + " " + r.Places())
	cmd.Short = a.About
	cmd.Long = strings.TrimSpace(upper(a.About) + ".\n\n" + wrapped(a.More))
	files := map[string]string{} // that hold the content of fields
	var places []*act.Field
	for i := range r.Fields {
		f := &r.Fields[i]
		if f.Place != "" {
			places = append(places, f)
		}
		if f.Place != "" && !f.Both {
			continue
		}
		v := &flagValue{set: f.Set, text: f.Default, bool: f.Kind == act.KindFlag}
		if f.Kind == act.KindContent {
			v.set = func(name string) error { files[f.Name] = name; return nil }
		}
		flag := cmd.Flags().VarPF(v, f.Name, "", f.About)
		if f.Kind == act.KindFlag {
			flag.NoOptDefVal = "true"
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, s.candidates(f)) // the flag is there
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(places) == 0 || len(args) >= len(places) && !places[len(places)-1].Many {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.candidates(places[min(len(args), len(places)-1)])(cmd, args, typed)
	}
	cmd.Args = cobra.ArbitraryArgs // the request checks them
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.HasSubCommands() && len(args) > 0 && len(places) == 0 {
			return s.unknownVerb(cmd, args)
		}
		args = slices.Clone(args)
		for i, f := range places[:min(len(places), len(args))] {
			if f.Both && cmd.Flags().Changed(f.Name) {
				return act.Usage("unknown argument %s: --%s is given", boot.Word(args[i]), f.Name)
			}
			if f.Kind == act.KindContent && args[i] != "" {
				files[f.Name], args[i] = args[i], "-" // a stand-in
			}
		}
		if err := r.Args(args); err != nil {
			return err
		}
		*ran = true
		if err := r.CheckEarly(s.Program.Program); err != nil {
			return err
		}
		for field, name := range files {
			if err := s.read(cmd.Context(), r.Field(field), name); err != nil {
				return err
			}
		}
		return surface(s.Command, files).Error(r, s.do(cmd.Context(), r))
	}
}

// surface is how people have typed fields: as flags, or in their places.
func surface(command string, files map[string]string) act.Surface {
	typed := func(f act.Field) string {
		if f.Place != "" && !f.Both {
			return f.Place
		}
		return "--" + f.Name
	}
	return act.Surface{Command: command, Values: true, Before: func(f act.Field) string { return cmp.Or(fileName(files[f.Name]), f.Place, typed(f)) }, Word: typed}
}

// fileName is the name of a file for people.
func fileName(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// unknownVerb says what to do about a command line without a verb.
func (s *session) unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		var all []string
		for _, a := range s.table() {
			if a.Noun == cmd.Name() {
				all = append(all, a.Name())
			}
		}
		return act.Usage("want one of %s", strings.Join(all, ", "))
	}
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; is it " + strings.Join(near, " or ") + "?"
	}
	return act.Usage("unknown verb %s%s", strings.TrimSpace(verbOf(cmd)+" "+boot.Word(args[0])), hint)
}

// A flagValue is what pflag sets for a field.
type flagValue struct {
	set  func(string) error
	text string
	bool bool
}

func (v *flagValue) String() string { return v.text }

func (v *flagValue) Set(text string) error {
	if text == "" {
		return errors.New("the value is empty")
	}
	v.text = text
	return v.set(text)
}

// Type says "bool" of what is true or false, which pflag shows without a value.
func (v *flagValue) Type() string {
	if v.bool {
		return "bool"
	}
	return ""
}

// flagError is an error of a flag without what may be a secret: somebody may have typed a URL or a key in one word with
// the flag's name. A long value is cut.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	var syntax *pflag.InvalidSyntaxError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return act.Usage("unknown flag --%s", strings.Trim(boot.Word(unknown.GetSpecifiedName()), `"`))
	case errors.As(err, &syntax):
		return act.Usage("bad flag %s", boot.Word(syntax.GetSpecifiedFlag()))
	case errors.As(err, &bad):
		why := bad.Unwrap()
		if bad.GetFlag().Value.Type() == "bool" {
			why = errors.New("want true or false")
		}
		return act.Usage("--%s: invalid value %s: %w", bad.GetFlag().Name, storage.Quote(bad.GetValue()), why)
	}
	return act.Usage("%w", err)
}

// withTwoDashes reads -name as --name. The value of a flag stays as it is, also one that begins with a dash.
func withTwoDashes(root *cobra.Command, args []string) []string {
	takes := map[string]bool{}
	note := func(f *pflag.Flag) { takes[f.Name] = f.NoOptDefVal == "" }
	root.PersistentFlags().VisitAll(note)
	for _, noun := range root.Commands() {
		noun.Flags().VisitAll(note)
		for _, verb := range noun.Commands() {
			verb.Flags().VisitAll(note)
		}
	}
	args = slices.Clone(args)
	completes := len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" || completes && i == len(args)-1 { // the last word is still being typed
			break
		}
		if len(word) < 2 || word[0] != '-' || word == "-h" {
			continue
		}
		if word[1] != '-' {
			if c := word[1] | 0x20; c < 'a' || c > 'z' {
				continue
			}
			args[i] = "-" + word
		}
		if name, _, both := strings.Cut(args[i][2:], "="); takes[name] && !both {
			i++
		}
	}
	return args
}

// completeWithin bounds the reading of a store that may be distant.
const completeWithin = 3 * time.Second

// candidates offers what a field may be. Words that depend on the store are offered if it can be read soon.
func (s *session) candidates(f *act.Field) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		if f.Kind == act.KindContent || f.Kind == act.KindFile {
			return nil, cobra.ShellCompDirectiveDefault
		}
		all, typed := f.Plain, strings.ReplaceAll(typed, `\`, "") // bash passes blanks as they are typed
		if f.Words != nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
			defer cancel()
			desk, shut, err := s.opens(ctx, nil)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			all = append(slices.Clone(all), f.Words(ctx, desk)...)
			shut(&err) // nobody could read an error
		}
		var fit []string
		for _, word := range all {
			if strings.HasPrefix(word, typed) {
				fit = append(fit, boot.Clean(word))
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// read reads the content of a field from a file or from the standard input, until ctx ends.
func (s *session) read(ctx context.Context, f *act.Field, name string) error {
	came := make(chan error, 1)
	var body []byte
	go func() (err error) {
		defer func() { came <- err }()
		in := s.in
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			in = file
		}
		body, err = io.ReadAll(io.LimitReader(in, int64(f.Most)+1))
		return err
	}()
	select {
	case err := <-came:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f.Set(string(body)); err != nil {
		return act.Usage("%s: %w", fileName(name), err)
	}
	return nil
}

// wrapped breaks the lines of a text where they are too long.
func wrapped(text string) string {
	const most = 120
	var b strings.Builder
	for line := range strings.Lines(text) {
		at := 0
		for i, word := range strings.Fields(line) {
			switch n := utf8.RuneCountInString(word); {
			case i == 0:
				at = n
			case at+1+n > most:
				b.WriteByte('\n')
				at = n
			default:
				b.WriteByte(' ')
				at += 1 + n
			}
			b.WriteString(word)
		}
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
