package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"switchboard/chat"
)

// operator is the person who runs the bot on this machine.
func operator(name string) chat.Person {
	return chat.Person{ID: "local:" + name, Kind: chat.Member}
}

// operatorName is who has started this process, as the machine knows them.
func operatorName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return strings.Join(strings.Fields(u.Username), "_")
	}
	return "uid-" + strconv.Itoa(os.Getuid()) // a container may know no names
}

// newSpoken is a decision of the operator. Its key is its own.
func newSpoken(card string, say chat.Saying, words string) spoken {
	name := operatorName()
	return spoken{Key: fmt.Sprintf("click:%s:local:%s:%d", card, name, time.Now().UnixNano()), Card: card, Say: say, Words: words, User: name}
}

// errNobodyThere says that no process works behind a door.
var errNobodyThere = errors.New("no bot is at work on store")

// knock brings a decision to the process behind the door.
func knock(ctx context.Context, path string, s spoken) (heard, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return heard{}, fmt.Errorf("write a decision: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin+5*time.Second, errors.New("the bot did not answer in time"))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bot/decide", bytes.NewReader(body))
	if err != nil {
		return heard{}, fmt.Errorf("write a decision: %w", err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED): // none, or of a process that was killed
		return heard{}, errNobodyThere
	case errors.Is(err, fs.ErrPermission):
		return heard{}, fmt.Errorf("reach the bot at %s: the socket is another user's; decide as the user who runs the bot", path)
	case err != nil:
		return heard{}, fmt.Errorf("reach the bot at %s: %w; whether the decision counts, bot approvals show %s says", path, err, s.Card)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostSaid))
	if err != nil {
		return heard{}, fmt.Errorf("read the bot's answer at %s: %w; whether the decision counts, bot approvals show %s says", path, err, s.Card)
	}
	var h heard
	if err := json.Unmarshal(data, &h); err != nil || h.Words == "" {
		return heard{}, fmt.Errorf("read the bot's answer at %s: it is none; is another program behind this socket?", path)
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return heard{}, errors.New(h.Words)
	}
	return h, nil
}
