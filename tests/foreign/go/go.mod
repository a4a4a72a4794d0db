module provstore.example/foreign

go 1.26.0

require (
	github.com/secure-systems-lab/go-securesystemslib v0.11.1
	golang.org/x/mod v0.43.0
)

require (
	golang.org/x/crypto v0.55.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
