package policy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/shofer-dev/shofer-sandbox/internal/nearest"
)

// decodeLimit bounds a policy in JSON.
const decodeLimit = 16 << 20

// DecodeError is a policy in JSON that can't be read.
type DecodeError struct {
	// Name is the name of the file, empty if there is none.
	Name string
	// Line and Column say where, both from 1, in bytes; 0 if nowhere.
	Line, Column int
	// Key is the field, as in "network.bind_tcp[0]"; may be empty.
	Key string
	// Why says what is wrong.
	Why string
	// Hint says what was probably meant; may be empty.
	Hint string
	// Err is the cause; may be nil.
	Err error
}

// Error returns "NAME:LINE:COLUMN: KEY: WHY, HINT", less what is empty.
func (e *DecodeError) Error() string {
	var s strings.Builder
	if e.Name != "" {
		s.WriteString(display(e.Name) + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&s, "%d:%d:", e.Line, e.Column)
	}
	if s.Len() > 0 {
		s.WriteByte(' ')
	}
	if e.Key != "" {
		s.WriteString(e.Key + ": ")
	}
	s.WriteString(e.Why)
	if e.Hint != "" {
		s.WriteString(", " + e.Hint)
	}
	return s.String()
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decode reads one policy in JSON, of at most 16 MiB, to the end of r. It is
// strict: an unknown key, a key in other case, a key given twice, null, a
// value of another type, bytes that are not UTF-8, and data after the policy
// are errors, of type [*DecodeError]. An error of r comes back as it is.
//
// What is read is not validated; [Resolve] does that.
func Decode(r io.Reader) (Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, decodeLimit+1))
	if err != nil {
		return Policy{}, err
	}
	return DecodeFile("", data)
}

// DecodeFile is [Decode] for the content of a file, whose name it puts into
// errors.
func DecodeFile(name string, data []byte) (Policy, error) {
	var p Policy
	if len(data) > decodeLimit {
		return Policy{}, &DecodeError{Name: name, Why: "larger than 16 MiB"}
	}
	if err := decodeStrict(data, &p); err != nil {
		if de, ok := errors.AsType[*DecodeError](err); ok {
			de.Name = name
		}
		return Policy{}, err
	}
	return p, nil
}

// Encode returns p as indented JSON that [Decode] reads back to the same
// value. A path or string that JSON can't carry (with a NUL byte, or a
// variable that is not valid UTF-8) is an error.
func (p Policy) Encode() ([]byte, error) {
	for _, list := range [][]string{p.Env.Set, p.Env.Unset} {
		for _, s := range list {
			if !utf8.ValidString(s) {
				return nil, fmt.Errorf("environment entry %q is not valid UTF-8", s)
			}
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decodeStrict checks data against the type of v, then fills v.
func decodeStrict(data []byte, v any) error {
	w := walker{data: data}
	if err := w.check(reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return &DecodeError{Why: err.Error(), Err: err}
	}
	return nil
}

// walker reads JSON token by token beside the type that it is meant for:
// encoding/json alone takes keys in any case and the last of two, and mends
// bad text silently.
type walker struct {
	data []byte
	dec  *json.Decoder
	key  []string
	// start is where the last token starts.
	start int
}

func (w *walker) check(t reflect.Type) error {
	for i := 0; i < len(w.data); {
		r, size := utf8.DecodeRune(w.data[i:])
		if r == utf8.RuneError && size == 1 {
			w.start = i
			return w.errorf("not valid UTF-8: such a path is written as {\"base64\": …}")
		}
		i += size
	}
	var raw json.RawMessage
	if err := json.Unmarshal(w.data, &raw); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			w.start = max(int(syntax.Offset)-1, 0)
		}
		e := w.errorf("%s", err.Error())
		e.Err = err
		return e
	}
	w.dec = json.NewDecoder(bytes.NewReader(w.data))
	w.dec.UseNumber()
	if err := w.value(t); err != nil {
		return err
	}
	return nil
}

// errorf makes an error at the last token.
func (w *walker) errorf(format string, args ...any) *DecodeError {
	before := w.data[:min(w.start, len(w.data))]
	return &DecodeError{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Key:    strings.Join(w.key, ""),
		Why:    fmt.Sprintf(format, args...),
	}
}

// token returns the next token. The text is known to be valid.
func (w *walker) token() (json.Token, error) {
	at := int(w.dec.InputOffset())
	for at < len(w.data) && strings.IndexByte(" \t\r\n:,", w.data[at]) >= 0 {
		at++
	}
	w.start = at
	token, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	if _, ok := token.(string); ok && loneSurrogate(w.data[at:w.dec.InputOffset()]) {
		return nil, w.errorf("half of a surrogate pair, which stands for no text")
	}
	return token, nil
}

var (
	pathType  = reflect.TypeFor[Path]()
	bytesType = reflect.TypeFor[[]byte]()
)

func (w *walker) value(t reflect.Type) error {
	token, err := w.token()
	if err != nil {
		return err
	}
	if t == pathType {
		if token == json.Delim('{') {
			return w.object(reflect.TypeFor[pathObject]())
		}
		t = reflect.TypeFor[string]()
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case token == nil:
		return w.errorf("null is not allowed: leave the key out")
	case t == bytesType:
		text, ok := token.(string)
		if !ok {
			return w.wrongType("a string", token)
		}
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return w.errorf("not base64")
		}
	case t.Kind() == reflect.Struct:
		if token != json.Delim('{') {
			return w.wrongType("an object", token)
		}
		return w.object(t)
	case t.Kind() == reflect.Slice:
		if token != json.Delim('[') {
			return w.wrongType("a list", token)
		}
		return w.array(t.Elem())
	case t.Kind() == reflect.String:
		text, ok := token.(string)
		if !ok {
			return w.wrongType("a string", token)
		}
		if strings.IndexByte(text, 0) >= 0 {
			return w.errorf("%s", errNUL)
		}
	case t.Kind() == reflect.Bool:
		if _, ok := token.(bool); !ok {
			return w.wrongType("true or false", token)
		}
	case t.Kind() == reflect.Uint16, t.Kind() == reflect.Int64, t.Kind() == reflect.Float64:
		number, ok := token.(json.Number)
		if !ok {
			return w.wrongType("a number", token)
		}
		return w.number(t.Kind(), number.String())
	default:
		return w.errorf("bug: no JSON form for %s", t)
	}
	return nil
}

func (w *walker) number(kind reflect.Kind, text string) error {
	switch kind { //nolint:exhaustive // those of a policy
	case reflect.Uint16:
		if _, err := strconv.ParseUint(text, 10, 16); err != nil {
			return w.errorf("%s is no whole number from 0 to 65535", text)
		}
	case reflect.Int64:
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return w.errorf("%s is no whole number, or too large a one", text)
		}
	default:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return w.errorf("%s is too large a number", text)
		}
	}
	return nil
}

func (w *walker) wrongType(want string, token json.Token) error {
	got := "an object"
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			got = "a list"
		}
	case string:
		got = "a string"
	case json.Number:
		got = "a number"
	case bool:
		got = "true or false"
	}
	return w.errorf("%s is needed here, not %s", want, got)
}

// object reads the rest of an object; its brace has been read.
func (w *walker) object(t reflect.Type) error {
	at := w.start
	fields := jsonFields(t)
	var seen []string
	for w.dec.More() {
		token, err := w.token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		field, ok := fields[name]
		w.key = append(w.key, keyText(len(w.key) == 0, name))
		switch {
		case !ok:
			e := w.errorf("unknown key")
			names := make([]string, 0, len(fields))
			for known := range fields {
				names = append(names, known)
			}
			slices.Sort(names)
			if near := nearest.Word(lower(name), names); near != "" {
				e.Hint = "did you mean \"" + near + "\"?"
			}
			return e
		case slices.Contains(seen, name):
			return w.errorf("given twice")
		}
		seen = append(seen, name)
		if err := w.value(field); err != nil {
			return err
		}
		w.key = w.key[:len(w.key)-1]
	}
	if _, err := w.token(); err != nil {
		return err
	}
	if t == reflect.TypeFor[pathObject]() && !slices.Contains(seen, "base64") {
		w.start = at
		return w.errorf("a path object needs the key \"base64\"")
	}
	return nil
}

// array reads the rest of a list; its bracket has been read.
func (w *walker) array(t reflect.Type) error {
	for i := 0; w.dec.More(); i++ {
		w.key = append(w.key, "["+strconv.Itoa(i)+"]")
		if err := w.value(t); err != nil {
			return err
		}
		w.key = w.key[:len(w.key)-1]
	}
	_, err := w.token()
	return err
}

// keyText returns name as a part of a field's name.
func keyText(first bool, name string) string {
	plain := name != ""
	for _, c := range []byte(name) {
		plain = plain && (c == '_' || isAlpha(c) || c >= '0' && c <= '9')
	}
	if !plain {
		name = strconv.Quote(name)
	}
	if first {
		return name
	}
	return "." + name
}

// jsonFields returns the types of t's fields by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		fields[name] = field.Type
	}
	return fields
}

// loneSurrogate reports whether the JSON string holds an escape that is half
// of a pair: encoding/json replaces it without a word.
func loneSurrogate(raw []byte) bool {
	high := false
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			if high {
				return true
			}
			continue
		}
		i++
		if i >= len(raw) || raw[i] != 'u' || i+4 >= len(raw) {
			if high {
				return true
			}
			continue
		}
		unit, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
		i += 4
		switch low := unit >= 0xdc00 && unit < 0xe000; {
		case err != nil || high != low:
			return true
		default:
			high = unit >= 0xd800 && unit < 0xdc00
		}
	}
	return high
}
