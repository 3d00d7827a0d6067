package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"switchboard/config/expr"
)

// Environ looks a variable up; ok is false when it is not set.
type Environ func(name string) (value string, ok bool)

// OS is the environment of the process. It is the only place that reads it.
func OS() Environ { return os.LookupEnv }

// redisPath is the path of a Redis address: the number of a database, or nothing.
var redisPath = regexp.MustCompile(`^(/[0-9]{0,3})?$`)

// maxSecret is how many bytes of a file a Ref reads at most.
const maxSecret = 64 << 10

// Resolve gives the value behind the reference, without the white space around it. The error names the variable or the
// file, never what they hold.
func (r Ref) Resolve(env Environ) (string, error) {
	if r.Env != "" {
		v, ok := env(r.Env)
		if v = strings.TrimSpace(v); !ok || v == "" {
			return "", fmt.Errorf("read variable %s: it is not set or empty; set it and start again", r.Env)
		}
		return v, nil
	}
	f, err := os.Open(r.File)
	if err != nil {
		return "", fmt.Errorf("read file %s: %w; put the value there or correct the path", r.File, bare(err))
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read file %s: %w; put the value there or correct the path", r.File, bare(err))
	}
	v := strings.TrimSpace(string(data))
	if v == "" || len(data) > maxSecret {
		return "", fmt.Errorf("read file %s: it is empty or longer than 64 KiB; put one value there", r.File)
	}
	return v, nil
}

// bare leaves out the path, which the message around it names already.
func bare(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

// String names the variable or the file.
func (r Ref) String() string {
	if r.Env != "" {
		return "variable " + r.Env
	}
	return "file " + r.File
}

// Settings are what the process itself takes from its environment, apart from what a pack names.
type Settings struct {
	Store         string // BOT_STORE: sqlite:PATH, or a redis:// or rediss:// address, which may hold a password: never print it
	Log           string // BOT_LOG: debug | info | warn | error | off
	OpenAIKey     string
	OpenAIBase    string // "": the provider's own address
	AnthropicKey  string
	AnthropicBase string
	SlackBot      string // SLACK_BOT_TOKEN: xoxb-…
	SlackApp      string // SLACK_APP_TOKEN: xapp-…, for Socket Mode
	SlackSecret   string // SLACK_SIGNING_SECRET, for HTTP mode
	SlackAPI      string // SLACK_API_URL: of another Slack, ending in a slash; "": Slack's own
	Addr          string // BOT_ADDR: where health is told, and events are taken in HTTP mode
	// ToolNets is BOT_TOOL_NETS: networks that are not public and that the servers of tools may stand in all the same.
	ToolNets []netip.Prefix
}

// StorePath is the path of the SQLite file; "" where the state lives elsewhere.
func (s Settings) StorePath() string {
	path, ok := strings.CutPrefix(s.Store, "sqlite:")
	if !ok {
		return ""
	}
	return path
}

// Redis is the address of the Redis server; false where the state lives elsewhere. It may hold a password.
func (s Settings) Redis() (address string, ok bool) {
	if strings.HasPrefix(s.Store, "redis://") || strings.HasPrefix(s.Store, "rediss://") {
		return s.Store, true
	}
	return "", false
}

// ReadSettings reads the settings and puts defaults where a variable is not set or empty. The error names every variable
// that holds something unusable, and never a key.
func ReadSettings(env Environ) (Settings, error) {
	get := func(name, unset string) string {
		v, ok := env(name)
		if v = strings.TrimSpace(v); !ok || v == "" {
			return unset
		}
		return v
	}
	s := Settings{
		Store:         get("BOT_STORE", "sqlite:bot.db"),
		Log:           get("BOT_LOG", "info"),
		OpenAIKey:     get("OPENAI_API_KEY", ""),
		OpenAIBase:    get("OPENAI_BASE_URL", ""),
		AnthropicKey:  get("ANTHROPIC_API_KEY", ""),
		AnthropicBase: get("ANTHROPIC_BASE_URL", ""),
		SlackBot:      get("SLACK_BOT_TOKEN", ""),
		SlackApp:      get("SLACK_APP_TOKEN", ""),
		SlackSecret:   get("SLACK_SIGNING_SECRET", ""),
		SlackAPI:      get("SLACK_API_URL", ""),
		Addr:          get("BOT_ADDR", "127.0.0.1:8080"),
	}
	if s.SlackAPI != "" && !strings.HasSuffix(s.SlackAPI, "/") {
		s.SlackAPI += "/"
	}
	nets, err := readNets(get("BOT_TOOL_NETS", ""))
	s.ToolNets = nets
	return s, errors.Join(err, checkStore(s.Store), checkLog(s.Log), checkAddr(s.Addr),
		checkBase("OPENAI_BASE_URL", s.OpenAIBase), checkBase("ANTHROPIC_BASE_URL", s.AnthropicBase), checkBase("SLACK_API_URL", s.SlackAPI))
}

// checkAddr takes host:port, with a port that is a number; the host may be left out.
func checkAddr(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("read BOT_ADDR: %q is no host:port; write for example 127.0.0.1:8080, or :8080 for every address of the machine", s)
	}
	return nil
}

// readNets reads networks between commas.
func readNets(s string) ([]netip.Prefix, error) {
	if s == "" {
		return nil, nil
	}
	var out []netip.Prefix
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		net, err := netip.ParsePrefix(word)
		switch addr, single := netip.ParseAddr(word); {
		case err == nil && net.Masked() == net:
			out = append(out, net)
		case err == nil:
			return nil, fmt.Errorf("read BOT_TOOL_NETS: %q names one address within a network; write %s for the network", word, net.Masked())
		case single == nil:
			return nil, fmt.Errorf("read BOT_TOOL_NETS: %q has no length; write %s/%d for this address alone", word, addr, addr.BitLen())
		default:
			return nil, fmt.Errorf("read BOT_TOOL_NETS: %q is no network; write networks between commas, such as 10.0.0.0/8,fd00::/8", word)
		}
	}
	return out, nil
}

// checkStore never repeats the address: it may hold a password.
func checkStore(s string) error {
	kind, path, _ := strings.Cut(s, ":")
	switch kind {
	case "sqlite":
		if path != "" {
			return nil
		}
	case "redis", "rediss":
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || u.Fragment != "" || !redisPath.MatchString(u.Path) {
			return errors.New("read BOT_STORE: it is no address of a Redis server; write for example redis://127.0.0.1:6379/0, or rediss://USER:PASSWORD@HOST:PORT/0 " +
				"with what is special in the password written as %XX")
		}
		return nil
	}
	return errors.New("read BOT_STORE: it is neither sqlite:PATH nor a redis:// address; write for example sqlite:bot.db or redis://127.0.0.1:6379/0")
}

func checkLog(s string) error {
	levels := []string{"debug", "info", "warn", "error", "off"}
	if slices.Contains(levels, s) {
		return nil
	}
	if near := expr.Near(s, levels); near != "" {
		return fmt.Errorf("read BOT_LOG: unknown level %q; did you mean %s?", s, near)
	}
	return fmt.Errorf("read BOT_LOG: unknown level %q; write one of %s", s, strings.Join(levels, ", "))
}

func checkBase(name, s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("read %s: it is no plain http or https address; write for example https://host.example.com/path", name)
	}
	return nil
}
