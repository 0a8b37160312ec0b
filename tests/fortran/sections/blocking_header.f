! ranks: 1 2
! Sections in blocking calls with mpif.h.
      PROGRAM SECHDR
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, NP, A(4,4), B(4,4), I, J
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 20 J = 1, 4
         DO 10 I = 1, 4
            A(I,J) = 100*ME + 10*I + J
            B(I,J) = 0
   10    CONTINUE
   20 CONTINUE
      CALL MPI_SENDRECV(A(2,1:4), 4, MPI_INTEGER, MOD(ME+1, NP), 1,
     &                  B(3,4:1:-1), 4, MPI_INTEGER, MOD(ME+NP-1, NP),
     &                  1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, IERR)
      DO 40 J = 1, 4
         DO 30 I = 1, 4
            IF (I .EQ. 3) THEN
               IF (B(I,J) .NE. 100*MOD(ME+NP-1, NP) + 25 - J) STOP 1
            ELSE
               IF (B(I,J) .NE. 0) STOP 2
            END IF
   30    CONTINUE
   40 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
