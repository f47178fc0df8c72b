// Has no place in the table.
package util
