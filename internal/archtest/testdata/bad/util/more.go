// Package util has two comments.
package util
