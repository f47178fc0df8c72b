package rpc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shofer-dev/shofer-sandbox/capture"
	"github.com/shofer-dev/shofer-sandbox/runner"
)

// request is a line from the host.
type request struct {
	// ID is a string or a number; nil if the line has none.
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// message is a line to the host: an answer if it has an id, else one of the
// rest.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Result any             `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`

	Approval *approval `json:"approval,omitempty"`

	// Subscription is there in the following.
	Subscription string        `json:"subscription,omitempty"`
	Event        *runner.Event `json:"event,omitempty"`
	Output       *delta        `json:"output,omitempty"`
	Dropped      *dropped      `json:"dropped,omitempty"`
}

// line is the message as it is written.
func (m *message) line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m)
	return b.Bytes(), err
}

// Error is why a request failed.
type Error struct {
	// Code is for machines: one of [runner.ErrorCode], or one of the codes
	// here.
	Code string `json:"code"`
	// Message is for people, and Hint says what would mend it.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Result is what is known of the command, where there is one.
	Result *runner.Result `json:"result,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Codes of errors, besides those of [runner.ErrorCode].
const (
	// CodeInvalidRequest: the line isn't a request.
	CodeInvalidRequest = "INVALID_REQUEST"
	// CodeUnknownMethod: there is no such method.
	CodeUnknownMethod = "UNKNOWN_METHOD"
	// CodeInvalidParams: the parameters aren't those of the method.
	CodeInvalidParams = "INVALID_PARAMS"
	// CodeDuplicateID: a request with that id is under way. The id of the answer
	// is null.
	CodeDuplicateID = "DUPLICATE_ID"
	// CodeTooManyRequests: [MaxRequests] are under way.
	CodeTooManyRequests = "TOO_MANY_REQUESTS"
	// CodeAborted: the request was aborted before there was a result.
	CodeAborted = "ABORTED"
	// CodeUnknownArtifact: there is no such artifact, or no more.
	CodeUnknownArtifact = "UNKNOWN_ARTIFACT"
	// CodeEnded: the command has ended.
	CodeEnded = "ENDED"
	// CodeUnknownApproval: no such question waits for an answer.
	CodeUnknownApproval = "UNKNOWN_APPROVAL"
	// CodeUnknownSubscription: there is no such subscription.
	CodeUnknownSubscription = "UNKNOWN_SUBSCRIPTION"
)

// errAborted is the cause of the end of a request that was aborted.
var errAborted = errors.New("the request was aborted")

// asError makes an error one of the protocol.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	code := runner.ErrorCode(err)
	switch {
	case errors.Is(err, errAborted):
		code = CodeAborted
	case errors.Is(err, capture.ErrBadID), errors.Is(err, fs.ErrNotExist) && code == "FAILED":
		code = CodeUnknownArtifact
	}
	return &Error{Code: code, Message: err.Error(), Hint: runner.Hint(err)}
}

// parseRequest reads a line. With an error, the request has the id if there is
// one.
func parseRequest(line []byte) (q request, err error) {
	bad := func(format string, args ...any) (request, error) {
		return q, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return bad("not a JSON object: %v", err)
	}
	id, ok := fields["id"]
	if !ok {
		return bad("the request has no id")
	}
	if !isID(id) {
		return bad("an id is a string of at most %d bytes or an integer", maxID)
	}
	q.ID, q.Params = id, fields["params"]
	for name := range fields {
		if name != "id" && name != "method" && name != "params" {
			return bad("unknown field %s", quoted(name))
		}
	}
	if err := json.Unmarshal(fields["method"], &q.Method); err != nil || q.Method == "" {
		return bad("method is a string, and must be given")
	}
	return q, nil
}

const maxID = 256

// isID reports whether a JSON value can be an id.
func isID(v json.RawMessage) bool {
	if len(v) > maxID {
		return false
	}
	if v[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(v), 10, 64)
	return err == nil
}

// decode reads the parameters of a method. Those that it doesn't know are an
// error, so that no wish is overlooked.
func decode(params json.RawMessage, to any) error {
	if len(params) == 0 || string(params) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return &Error{Code: CodeInvalidParams, Message: strings.TrimPrefix(err.Error(), "json: ")}
	}
	return nil
}

// invalid is an error of the parameters.
func invalid(format string, args ...any) error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func quoted(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

// text is bytes as JSON has them: as they are, or in base64 where they aren't
// UTF-8.
type text struct {
	Text     string `json:"text"`
	Encoding string `json:"encoding"`
}

func textOf(b []byte) text {
	if utf8.Valid(b) {
		return text{string(b), "utf-8"}
	}
	return text{base64.StdEncoding.EncodeToString(b), "base64"}
}
