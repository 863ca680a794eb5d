// The animal store on Go's net/http and pgx.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultLimit   = 20
	maxLimit       = 100
	nameMaxLength  = 1000
	bodyLimitBytes = 64 << 10
)

var petStatuses = []string{"available", "pending", "sold"}

type pet struct {
	ID         int64   `json:"id"`
	Name       string  `json:"name"`
	CategoryID int64   `json:"categoryId"`
	Status     *string `json:"status,omitempty"`
}

// newPet has pointers, so that what is missing differs from what is empty.
type newPet struct {
	Name       *string `json:"name"`
	CategoryID *int64  `json:"categoryId"`
	Status     *string `json:"status"`
}

type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  int    `json:"status"`
}

type server struct {
	pool *pgxpool.Pool
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()

	httpServer := &http.Server{
		Addr:              "127.0.0.1:" + os.Getenv("PORT"),
		Handler:           (&server{pool: pool}).routes(),
		ReadHeaderTimeout: 10 * time.Second,
	}
	failed := make(chan error, 1)
	go func() { failed <- httpServer.ListenAndServe() }()

	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return httpServer.Shutdown(deadline)
}

func (s *server) routes() http.Handler {
	v1 := http.NewServeMux()
	v1.HandleFunc("GET /v1/pets", s.listPets)
	v1.HandleFunc("POST /v1/pets", s.createPet)
	v1.HandleFunc("GET /v1/pets/{petId}", s.getPet)
	v1.HandleFunc("/", routeNotFound)

	mux := http.NewServeMux()
	mux.Handle("/v1/", s.requireKey(v1))
	mux.HandleFunc("/", routeNotFound)
	return mux
}

func (s *server) requireKey(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		key = strings.TrimSpace(key)
		if !strings.EqualFold(scheme, "Bearer") || key == "" {
			writeError(w, http.StatusUnauthorized, "missing_api_key", "An API key is required.")
			return
		}
		hash := sha256.Sum256([]byte(key))
		var id string
		err := s.pool.QueryRow(r.Context(), `
			SELECT id FROM api_keys
			WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`,
			hash[:]).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			writeError(w, http.StatusUnauthorized, "invalid_api_key", "The API key is not valid.")
			return
		}
		if err != nil {
			writeInternalError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) listPets(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultLimit
	if query.Has("limit") {
		var err error
		limit, err = strconv.Atoi(query.Get("limit"))
		if err != nil || limit < 1 || limit > maxLimit {
			writeError(w, http.StatusBadRequest, "invalid_request", "limit must be an integer from 1 to 100.")
			return
		}
	}

	next := fmt.Sprintf("?limit=%d", limit)
	var conditions []string
	var arguments []any
	if query.Has("status") {
		status := query.Get("status")
		if !slices.Contains(petStatuses, status) {
			writeError(w, http.StatusBadRequest, "invalid_request", "status must be available, pending or sold.")
			return
		}
		next += "&status=" + status
		arguments = append(arguments, status)
		conditions = append(conditions, fmt.Sprintf("status = $%d", len(arguments)))
	}
	if query.Has("cursor") {
		before, err := decodeCursor(query.Get("cursor"))
		if err != nil {
			writeError(w, http.StatusBadRequest, "invalid_cursor", "The cursor is not valid.")
			return
		}
		arguments = append(arguments, before)
		conditions = append(conditions, fmt.Sprintf("id < $%d", len(arguments)))
	}

	sql := "SELECT id, name, category_id, status FROM pets"
	if len(conditions) > 0 {
		sql += " WHERE " + strings.Join(conditions, " AND ")
	}
	arguments = append(arguments, limit+1) // one more tells of a next page
	sql += fmt.Sprintf(" ORDER BY id DESC LIMIT $%d", len(arguments))

	// Query's error comes out of CollectRows too.
	rows, _ := s.pool.Query(r.Context(), sql, arguments...)
	pets, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pet])
	if err != nil {
		writeInternalError(w, err)
		return
	}
	if len(pets) > limit {
		pets = pets[:limit]
		next += "&cursor=" + encodeCursor(pets[limit-1].ID)
		w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, next))
	}
	writeJSON(w, http.StatusOK, pets)
}

func (s *server) getPet(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("petId"), 10, 64)
	if err != nil {
		writeError(w, http.StatusNotFound, "pet_not_found", "There is no such animal.")
		return
	}
	rows, _ := s.pool.Query(r.Context(), "SELECT id, name, category_id, status FROM pets WHERE id = $1", id)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[pet])
	if errors.Is(err, pgx.ErrNoRows) {
		writeError(w, http.StatusNotFound, "pet_not_found", "There is no such animal.")
		return
	}
	if err != nil {
		writeInternalError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

func (s *server) createPet(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimitBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		writeError(w, http.StatusRequestEntityTooLarge, "payload_too_large", "The body is larger than 64 KiB.")
		return
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", "The body could not be read.")
		return
	}
	var given newPet
	if err := json.Unmarshal(body, &given); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	if err := given.validate(); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}

	rows, _ := s.pool.Query(r.Context(), `
		INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3)
		RETURNING id, name, category_id, status`,
		given.Name, given.CategoryID, given.Status)
	created, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[pet])
	if err != nil {
		writeInternalError(w, err)
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/v1/pets/%d", created.ID))
	writeJSON(w, http.StatusCreated, created)
}

func (p newPet) validate() error {
	switch {
	case p.Name == nil || utf8.RuneCountInString(*p.Name) > nameMaxLength:
		return errors.New("name must be a string of at most 1000 characters")
	case p.CategoryID == nil:
		return errors.New("categoryId must be an integer")
	case p.Status != nil && !slices.Contains(petStatuses, *p.Status):
		return errors.New("status must be available, pending or sold")
	}
	return nil
}

func encodeCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "before:%d", id))
}

func decodeCursor(cursor string) (int64, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, err
	}
	digits, found := strings.CutPrefix(string(text), "before:")
	if !found {
		return 0, errors.New("the cursor does not begin with before:")
	}
	return strconv.ParseInt(digits, 10, 64)
}

func routeNotFound(w http.ResponseWriter, _ *http.Request) {
	writeError(w, http.StatusNotFound, "route_not_found", "There is no such operation.")
}

func writeInternalError(w http.ResponseWriter, err error) {
	log.Print(err)
	writeError(w, http.StatusInternalServerError, "internal_error", "The service failed to answer.")
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, errorBody{Code: code, Message: message, Status: status})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err) // the client has left: the values here can all be encoded
	}
}
