module github.com/millrace-go/millrace

go 1.26
