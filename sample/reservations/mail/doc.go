// Package mail sends the sample's e-mails: by SMTP ([NewSMTP]), or as files in a folder ([NewFolder]) for
// people who try the sample without a mail server.
//
// # Laws
//
//   - Send returns nil once another system is responsible for the mail: the SMTP server has accepted it, or the file is
//     on the disk. After [ErrUnanswered] the server may have accepted it all the same; after any other error it has
//     not. A repeat can be recognised: a mail's Message-ID is made from reservations.Mail.MessageID alone, and in a
//     folder the repeat replaces the file.
//   - [ErrRefused] means that this mail will never be accepted, however often it is sent.
//   - Nothing in a mail can add a header, a recipient or an SMTP command, or name a file outside the folder.
//   - Send ends soon after its context does.
//   - A password appears in no error.
package mail
