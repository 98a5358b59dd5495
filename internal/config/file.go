package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

const (
	fileBytesMax = 1 << 20
	prefix       = "PONTE_"
	fileSuffix   = "_FILE"
)

// SecretFiles sets every PONTE_NAME whose PONTE_NAME_FILE names a file to what is in it, so that secrets can be mounted
// instead of written into the environment.
func SecretFiles() error {
	for _, pair := range os.Environ() {
		name, path, _ := strings.Cut(pair, "=")
		target, ok := strings.CutSuffix(name, fileSuffix)
		if !ok || !strings.HasPrefix(name, prefix) || path == "" {
			continue
		}
		if os.Getenv(target) != "" {
			return fmt.Errorf("%s and %s are both set: use one", target, name)
		}
		content, err := readBounded(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.Setenv(target, strings.TrimRight(string(content), "\r\n")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Files returns the option that lets a YAML file set flags that neither the command line nor the environment sets. The
// names in the file are the flags'.
func Files() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		f := &fileResolver{}
		return errors.Join(kong.Resolvers(f).Apply(k), kong.WithBeforeResolve(f.load).Apply(k))
	})
}

// Networks returns the option that reads networks from flags. What netip says about a bad one names its own functions.
func Networks() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("network", &text); err != nil {
			return err
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%q is no network: write a CIDR, such as 10.0.0.0/8 or 192.0.2.7/32", text)
		}
		target.Set(reflect.ValueOf(network))
		return nil
	}))
}

// fileResolver has the values of the file named by --config.
type fileResolver struct {
	path   string
	loaded bool
	values map[string]any
}

// sections are what the file has beside flags.
var sections = []string{acquirersSection, cryptoSection, ratesSection, webhooksSection}

// Validate refuses names that no flag has.
func (f *fileResolver) Validate(app *kong.Application) error {
	var known []string
	_ = kong.Visit(app.Node, func(n kong.Visitable, next kong.Next) error {
		if node, ok := n.(*kong.Node); ok {
			for _, flag := range node.Flags {
				known = append(known, flag.Name)
			}
		}
		if a, ok := n.(*kong.Application); ok {
			for _, flag := range a.Flags {
				known = append(known, flag.Name)
			}
		}
		return next(nil)
	})
	for name := range f.values {
		if !slices.Contains(sections, name) && !slices.Contains(known, flagName(name)) {
			return fmt.Errorf("%s: unknown setting %q", f.path, name)
		}
	}
	return nil
}

// Resolve returns the file's value for a flag, or nil.
func (f *fileResolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil //nolint:nilnil // kong's word for "not from here"
		}
	}
	for name, v := range f.values {
		if flagName(name) == flag.Name {
			return v, nil
		}
	}
	return nil, nil //nolint:nilnil // kong's word for "not from here"
}

// flagName turns trusted_proxy into trusted-proxy.
func flagName(name string) string { return strings.ReplaceAll(name, "_", "-") }

func configPath(ctx *kong.Context) string {
	for _, flag := range ctx.Flags() {
		if flag.Name == "config" {
			if s, ok := ctx.FlagValue(flag).(string); ok {
				return s
			}
		}
	}
	return ""
}

// load reads the file. It comes before Resolve, whose errors kong takes for those of the flag that it asks for.
func (f *fileResolver) load(ctx *kong.Context) error {
	if f.loaded { // kong calls it for every word of the command line
		return nil
	}
	f.loaded = true
	f.path = configPath(ctx)
	if f.path == "" {
		return nil
	}
	content, err := readBounded(f.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if err := yaml.NewDecoder(bytes.NewReader(content)).Decode(&f.values); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("--config %s: %w", f.path, err)
	}
	return nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, fileBytesMax+1))
	if err == nil && len(content) > fileBytesMax {
		err = fmt.Errorf("%s is larger than %d bytes", path, fileBytesMax)
	}
	return content, err
}
