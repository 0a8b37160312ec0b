! ranks: 2
! Types with their size in the name: INTEGER*1 to REAL*8.
      PROGRAM SIZED
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, O, S(MPI_STATUS_SIZE), N
      INTEGER*1 I1, J1
      INTEGER*2 I2, J2
      INTEGER*4 I4, J4
      INTEGER*8 I8, J8
      REAL*4 R4, Q4
      REAL*8 R8, Q8
      COMPLEX*8 C8, D8
      COMPLEX*16 C16, D16
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      O = 1 - ME
      I1 = 100 + ME
      I2 = 30000 + ME
      I4 = 2000000000 + ME
      I8 = 9000000000000000000_8 + ME
      R4 = 0.5 + ME
      R8 = 0.125D0 + ME
      C8 = (1.0, 2.0)
      C16 = (3D0, 4D0)
      CALL MPI_SENDRECV(I1, 1, MPI_INTEGER1, O, 1, J1, 1, MPI_INTEGER1,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(I2, 1, MPI_INTEGER2, O, 1, J2, 1, MPI_INTEGER2,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(I4, 1, MPI_INTEGER4, O, 1, J4, 1, MPI_INTEGER4,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(I8, 1, MPI_INTEGER8, O, 1, J8, 1, MPI_INTEGER8,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_GET_COUNT(S, MPI_BYTE, N, IERR)
      IF (N .NE. 8) STOP 1
      CALL MPI_SENDRECV(R4, 1, MPI_REAL4, O, 1, Q4, 1, MPI_REAL4,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(R8, 1, MPI_REAL8, O, 1, Q8, 1, MPI_REAL8,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(C8, 1, MPI_COMPLEX8, O, 1, D8, 1, MPI_COMPLEX8,
     &                  O, 1, MPI_COMM_WORLD, S, IERR)
      CALL MPI_SENDRECV(C16, 1, MPI_COMPLEX16, O, 1, D16, 1,
     &                  MPI_COMPLEX16, O, 1, MPI_COMM_WORLD, S, IERR)
      IF (J1 .NE. 100 + O .OR. J2 .NE. 30000 + O) STOP 2
      IF (J4 .NE. 2000000000 + O) STOP 3
      IF (J8 .NE. 9000000000000000000_8 + O) STOP 4
      IF (Q4 .NE. 0.5 + O .OR. Q8 .NE. 0.125D0 + O) STOP 5
      IF (D8 .NE. C8 .OR. D16 .NE. C16) STOP 6
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
