package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func environ(vars map[string]string) Environ {
	return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
}

func TestM2_ReferencesNeverTellTheirValue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	env := environ(map[string]string{"SET": " CANARY\n", "EMPTY": " "})
	for _, c := range []struct {
		ref  Ref
		want string
	}{
		{Ref{Env: "SET"}, "CANARY"},
		{Ref{File: write("good", "CANARY\n")}, "CANARY"},
		{Ref{Env: "EMPTY"}, ""},
		{Ref{Env: "UNSET"}, ""},
		{Ref{File: filepath.Join(dir, "nowhere")}, ""},
		{Ref{File: write("empty", "\n")}, ""},
		{Ref{File: write("large", strings.Repeat("CANARY", 20_000))}, ""},
	} {
		got, err := c.ref.Resolve(env)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", c.ref, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "CANARY") || !strings.Contains(err.Error(), c.ref.Env+c.ref.File)) {
			t.Errorf("%s: the error tells too much or too little: %v", c.ref, err)
		}
	}
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	got, err := ReadSettings(environ(nil))
	if diff := cmp.Diff(Settings{Store: "sqlite:bot.db", Log: "info", Addr: "127.0.0.1:8080"}, got); diff != "" || err != nil {
		t.Errorf("defaults: %v (-want +got):\n%s", err, diff)
	}
	got, err = ReadSettings(environ(map[string]string{
		"BOT_STORE": "sqlite:/data/x.db", "BOT_LOG": "debug", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
		"ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "https://x.example",
	}))
	if err != nil || got.StorePath() != "/data/x.db" || got.OpenAIBase != "http://127.0.0.1:9/v1" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = ReadSettings(environ(map[string]string{
		"BOT_STORE": "redis://u:CANARY" + "@:6379/x", "BOT_TOOL_NETS": "10.0.0.0/8,10.1", "BOT_LOG": "debgu", "OPENAI_BASE_URL": "https://" + "u:CANARY" + "@x.example", "ANTHROPIC_BASE_URL": "ftp://x",
	}))
	for _, want := range []string{"no address of a Redis server", "BOT_TOOL_NETS", "did you mean debug?", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("want %q in %v", want, err)
		}
	}
	if _, err := ReadSettings(environ(map[string]string{"BOT_STORE": "bot.db"})); err == nil {
		t.Error("a store without its kind is accepted")
	}
	got, err = ReadSettings(environ(map[string]string{"BOT_STORE": "rediss://u:p%23" + "@cache.example:6380/2", "BOT_TOOL_NETS": "10.0.0.0/8, fd00::/8"}))
	if at, ok := got.Redis(); err != nil || !ok || at != "rediss://u:p%23"+"@cache.example:6380/2" || got.StorePath() != "" {
		t.Errorf("a Redis address: %q, %t, path %q, %v", at, ok, got.StorePath(), err)
	}
	if len(got.ToolNets) != 2 || got.ToolNets[1].String() != "fd00::/8" {
		t.Errorf("networks: %v", got.ToolNets)
	}
	for nets, want := range map[string]string{
		"10.0.0.5":      "write 10.0.0.5/32",
		"10.0.0.5/8":    "write 10.0.0.0/8",
		"10.0.0.0/8,,":  "is no network",
		"cache.example": "is no network",
	} {
		if _, err := ReadSettings(environ(map[string]string{"BOT_TOOL_NETS": nets})); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in %v", nets, want, err)
		}
	}
	for _, wrong := range []string{"redis:", "redis://", "redis://:CANARY" + "@", "redis://u:CA#NARY" + "@h/0", "redis://h/zero", "redis://u:CANARY%" + "@h", "rediss:h:1"} {
		_, err := ReadSettings(environ(map[string]string{"BOT_STORE": wrong}))
		if err == nil || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "CA#") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if _, ok := OS()("PATH"); !ok {
		t.Error("the environment of the process has no PATH")
	}
}
