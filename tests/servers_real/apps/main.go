// The application for Go's net/http: main FILES FOLDER SEEN PLAIN TLS MTLS
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	files, folder := os.Args[1], os.Args[2]
	seen, err := os.OpenFile(os.Args[3], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/static/", http.FileServer(http.Dir(files)))
	mux.HandleFunc("/stamp", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		io.Copy(io.Discard, r.Body)
		if wait, err := strconv.ParseFloat(query.Get("wait"), 64); err == nil {
			time.Sleep(time.Duration(wait * float64(time.Second)))
		}
		n, err := strconv.Atoi(query.Get("n"))
		if err != nil {
			n = 1
		}
		io.WriteString(w, strings.Repeat(query.Get("id"), n))
	})
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		length, err := io.Copy(sum, r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(w, `{"length": %d, "sha256": "%x"}`, length, sum.Sum(nil))
	})
	mux.HandleFunc("/204", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) })
	mux.HandleFunc("/redirect/", func(w http.ResponseWriter, r *http.Request) {
		hops, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/redirect/"))
		if hops == 0 {
			io.WriteString(w, "hello")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/redirect/%d", hops-1), 302)
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Checksum")
		io.WriteString(w, "hello")
		w.Header().Set("X-Checksum", fmt.Sprintf("%x", sha256.Sum256([]byte("hello"))))
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{"first", "second", "third"} {
			fmt.Fprintf(w, "data: %s\n\n", data)
			w.(http.Flusher).Flush()
		}
	})
	noting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.URL.Query().Get("id"); id != "" {
			seen.WriteString(id + "\n")
		}
		mux.ServeHTTP(w, r)
	})
	authorities := x509.NewCertPool()
	pem, _ := os.ReadFile(folder + "/ca.pem")
	authorities.AppendCertsFromPEM(pem)
	demanding := &tls.Config{ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert}
	servers := []*http.Server{
		{Addr: "127.0.0.1:" + os.Args[4], Handler: noting},
		{Addr: "127.0.0.1:" + os.Args[5], Handler: noting},
		{Addr: "127.0.0.1:" + os.Args[6], Handler: noting, TLSConfig: demanding},
	}
	cert := folder + "/cert.pem"
	go servers[0].ListenAndServe()
	go servers[1].ListenAndServeTLS(cert, cert)
	go servers[2].ListenAndServeTLS(cert, cert)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, server := range servers {
		server.Shutdown(patience)
	}
}
