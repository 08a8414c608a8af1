// Package millracetest tests programs.
package millracetest
