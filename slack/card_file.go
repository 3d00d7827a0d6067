package slack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	slackgo "github.com/slack-go/slack"
)

// share puts a file beside a card, once.
// Slack: https://docs.slack.dev/messaging/working-with-files#upload
func (s *Slack) share(ctx context.Context, at spot, card string, f *enclosure) error {
	c := &s.out.cards
	if c.shared(card, at, f) {
		return nil
	}
	err := s.upload(ctx, at, f)
	switch {
	case elsewhere(code(err)):
		return errors.Join(errGone, err)
	case code(err) == "missing_scope":
		return fmt.Errorf("share the file of a card, which is too long for a message: add the scope files:write on the app's page OAuth & Permissions, and install the app again: %w", err)
	case err != nil:
		return fmt.Errorf("share the file of a card, which is too long for a message: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.of(card)
	st.files = append(st.files, markOf(at, f.name))
	return nil
}

// markOf names a file in a place.
func markOf(at spot, name string) string { return at.channel + "\n" + at.root + "\n" + name }

// shared says whether a file stands beside a card.
func (c *cards) shared(card string, at spot, f *enclosure) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.of(card).files, markOf(at, f.name))
}

// upload has a file stored and shared. The address that Slack names gets the bytes and no token.
// Slack: https://docs.slack.dev/reference/methods/files.getUploadURLExternal, …/files.completeUploadExternal.
func (s *Slack) upload(ctx context.Context, at spot, f *enclosure) error {
	var to *slackgo.GetUploadURLExternalResponse
	err := s.call(ctx, saying, "files.getUploadURLExternal", "", func(ctx context.Context) (err error) {
		to, err = s.api.GetUploadURLExternalContext(ctx, slackgo.GetUploadURLExternalParameters{FileName: f.name, FileSize: len(f.data)})
		return err
	})
	if err != nil {
		return err
	}
	where, err := url.Parse(to.UploadURL)
	if err != nil || !s.trusted(where) {
		return errElsewhere
	}
	err = s.call(ctx, saying, "files.upload", "", func(ctx context.Context) error { return s.sendBytes(ctx, where.String(), f.data) })
	if err != nil {
		return err
	}
	return s.call(ctx, saying, "files.completeUploadExternal", at.channel, func(ctx context.Context) error {
		_, err := s.api.CompleteUploadExternalContext(ctx, slackgo.CompleteUploadExternalParameters{
			Files: []slackgo.FileSummary{{ID: to.FileID, Title: f.name}}, Channel: at.channel, ThreadTimestamp: at.root,
		})
		return err
	})
}

func (s *Slack) sendBytes(ctx context.Context, to string, data []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return withoutAddress(err)
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	answer, err := s.client.Do(request)
	if err != nil {
		return withoutAddress(err) // who knows it may write there
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<16)) // so that the connection can be used again
	if answer.StatusCode != http.StatusOK {
		return slackgo.StatusCodeError{Code: answer.StatusCode, Status: answer.Status}
	}
	return nil
}
